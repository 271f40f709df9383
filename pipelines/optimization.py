"""From a configuration to an optimiser with its parameter groups and a learning-rate schedule."""

import math
from typing import Any, Protocol

import torch

from hyperspherical.methods import Method

from .config.optimization import Adam, Constant, HalfCosine, Plateau, RampUpDown, Schedule, Sgd


def build_optimizer(method: Method, config: Sgd | Adam) -> torch.optim.Optimizer:
    """SGD or Adam over the groups of `parameter_groups`."""
    if isinstance(config, Adam):
        groups = parameter_groups(method, config.weight_decay, None, True)
        return torch.optim.Adam(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2))
    groups = parameter_groups(method, config.weight_decay, config.temperature_learning_rate, config.decay_class_matrix)
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, nesterov=config.nesterov)


def parameter_groups(
    method: Method, weight_decay: float, temperature_learning_rate: float | None, decay_class_matrix: bool
) -> list[dict[str, Any]]:
    """Up to three groups, empty ones left out.

    1. weights with two and more dimensions, the class matrix among them if `decay_class_matrix`: decayed;
    2. biases, batch-norm parameters and what the method exempts: not decayed;
    3. 0-d parameters, which are temperatures: not decayed, no momentum, a learning rate of their own if given.
    """
    exempt = method.undecayed_parameters()
    decayed, plain, temperatures = [], [], []
    for name, parameter in method.named_parameters():
        if not parameter.requires_grad:
            continue
        is_class_matrix = name.endswith("class_matrix")
        if parameter.dim() == 0:
            temperatures.append(parameter)
        elif parameter.dim() == 1 or name in exempt or (is_class_matrix and not decay_class_matrix):
            plain.append(parameter)
        else:
            decayed.append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    if temperature_learning_rate is None:
        groups[1]["params"] += temperatures
    else:
        own = {"lr": temperature_learning_rate, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}
        groups.append({"params": temperatures, **own})
    return [group for group in groups if group["params"]]


class LearningRate(Protocol):
    """A schedule: sets the rates before an epoch, and may learn from the epoch's accuracy."""

    def start_epoch(self, epoch: int) -> None: ...
    def end_epoch(self, accuracy: float) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def build_schedule(optimizer: torch.optim.Optimizer, config: Schedule, epochs: int) -> LearningRate:
    """The schedule of a configuration, acting on all groups of the optimiser alike."""
    if isinstance(config, Plateau):
        return PlateauSchedule(optimizer, config)
    if isinstance(config, RampUpDown):
        return RampSchedule(optimizer, config, epochs)
    return FactorSchedule(optimizer, config, epochs)


class FactorSchedule:
    """Rates that are a function of the epoch alone."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: Constant | HalfCosine, epochs: int) -> None:
        self.optimizer, self.config, self.epochs = optimizer, config, epochs
        self.base_rates = [group["lr"] for group in optimizer.param_groups]

    def start_epoch(self, epoch: int) -> None:
        factor = 1.0
        if isinstance(self.config, HalfCosine):
            factor = 0.5 * (1 + math.cos(math.pi * (epoch + 1) / self.epochs))
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor

    def end_epoch(self, accuracy: float) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class RampSchedule(FactorSchedule):
    """The AMC paper's rates: up(e) down(e) times the maximum, and beta1 = down 0.9 + (1 - down) beta1_target."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: RampUpDown, epochs: int) -> None:
        self.ramp = config
        super().__init__(optimizer, Constant(), epochs)
        self.base_betas = [group.get("betas") for group in optimizer.param_groups]

    def start_epoch(self, epoch: int) -> None:
        up, down = self.factors(epoch)
        for group, rate, betas in zip(self.optimizer.param_groups, self.base_rates, self.base_betas, strict=True):
            group["lr"] = rate * up * down
            if betas is not None:
                group["betas"] = (down * betas[0] + (1 - down) * self.ramp.beta1_target, betas[1])

    def factors(self, epoch: int) -> tuple[float, float]:
        """up and down at an epoch, each in (0, 1]."""
        ramp = self.ramp
        up = math.exp(-5 * (1 - epoch / ramp.ramp_up_epochs) ** 2) if epoch < ramp.ramp_up_epochs else 1.0
        into_the_end = (epoch - (self.epochs - ramp.ramp_down_epochs)) / ramp.ramp_down_epochs
        return up, math.exp(-12.5 * into_the_end**2) if into_the_end >= 0 else 1.0


class PlateauSchedule:
    """torch's ReduceLROnPlateau on the accuracy: cut on the (patience + 1)-th epoch in a row without improvement."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: Plateau) -> None:
        self.inner = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode="max", factor=config.factor, patience=config.patience
        )

    def start_epoch(self, epoch: int) -> None:
        pass

    def end_epoch(self, accuracy: float) -> None:
        self.inner.step(accuracy)

    def state_dict(self) -> dict[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state)
