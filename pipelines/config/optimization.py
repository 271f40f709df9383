"""Optimisers and learning-rate schedules of the three papers."""

from dataclasses import dataclass

from .constraints import Count, CountFromZero, NonNegative, OpenShare, Positive, Share


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent with a group of its own for the temperature (vMF supplement, D.3 and E)."""

    learning_rate: Positive
    """LR."""
    temperature_learning_rate: Positive | None = None
    """TLR, for tau alone, which has no momentum and no decay; None where the objective has no temperature."""
    momentum: Share = 0.9
    """MOM."""
    nesterov: bool = False
    """NMOM."""
    weight_decay: NonNegative = 0.0
    """WD, on weights with two and more dimensions."""
    decay_class_matrix: bool = True
    """The official code decays the class matrix as well, though it means not to."""

    def own_faults(self) -> list[str]:
        wrong = self.nesterov and self.momentum == 0
        return ["nesterov is True with momentum 0, allowed is Nesterov momentum with momentum above 0"] if wrong else []


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam; its first decay rate is lowered by the `RampUpDown` schedule (AMC paper)."""

    learning_rate: Positive
    beta1: Share = 0.9
    """Decay of the first moment."""
    beta2: Share = 0.999
    """Decay of the second moment."""
    weight_decay: NonNegative = 0.0


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The learning rate stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Learning rates are cut when the monitored value has not improved for more than `patience` epochs."""

    factor: OpenShare = 0.5
    patience: CountFromZero = 15
    """Epochs without improvement that are still accepted."""


@dataclass(frozen=True, kw_only=True)
class HalfCosine:
    """lr (1 + cos(pi e / epochs)) / 2 in epoch e, counted from 1 as MoCo's code does."""


@dataclass(frozen=True, kw_only=True)
class RampUpDown:
    """The AMC paper's schedule: Gaussian ramp-up of the rate, Gaussian ramp-down of the rate and of Adam's beta1."""

    ramp_up_epochs: Count = 80
    """R: the rate is exp(-5 (1 - e/R)^2) of its maximum before epoch R."""
    ramp_down_epochs: Count = 50
    """Q: over the last Q epochs the rate falls as exp(-12.5 x^2), x from 0 to 1."""
    beta1_target: Share = 0.5
    """Where beta1 ends."""


Optimizer = Sgd | Adam
Schedule = Constant | Plateau | HalfCosine | RampUpDown
