"""The training loop: the same for one CPU, one GPU, every Ray Train worker and every trial of a search.

    open the data, build the method        every worker alike, from the configuration and the seed
    resume, or initialise from the data    an interrupted run continues after its last whole epoch
    epoch by epoch: train, measure, save   until the last epoch, the early stop, or a loss that is not finite

A run that was interrupted at any moment and continued gives the same weights and metrics as one that was not, bit for
bit on a CPU with a fixed number of threads: every random draw is keyed by (seed, epoch, step, worker). Batches and
augmentation are the same for any number of workers; draws inside a method (dropout, noise, vMF samples) are not.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from hyperspherical.gather import broadcast_buffers, convert_batch_norm
from hyperspherical.methods import Progress

from .accelerator import hardware, seed_step, start_accelerator, versions
from .config import Config
from .data import RunData, open_data
from .evaluation import OutputsNotFinite
from .optimization import build_optimizer, build_schedule
from .runs import Record, RunFolder

Report = Callable[[Record], None]


class Diverged(Exception):
    """The loss was not finite; the message says where, and what came before."""

    def __init__(self, loss: float, epoch: int, losses: list[float]) -> None:
        before = ", ".join(f"{value:.4g}" for value in losses[-5:]) or "none"
        super().__init__(f"the loss is {loss} in epoch {epoch}, step {len(losses) + 1}; the losses before it: {before}")


def train(config: Config, path: Path, report: Report = lambda record: None) -> Record:
    """Trains, or continues, the run of `config` in the folder `path`; returns its summary.

    `report` is called by every worker after every epoch. Raises `ConfigurationError` if the folder belongs to another
    configuration or process, and `ValueError` for missing or damaged data.
    """
    accelerator = start_accelerator(config)
    with accelerator.main_process_first():
        folder = RunFolder(path, config)
    if (summary := folder.summary()) is not None:
        return summary
    with folder.lock(accelerator.is_main_process), open_data(config, accelerator) as data:
        training = Training(config, folder, accelerator, data)
        training.resume_or_initialise()
        training.fit(report)
        summary = training.finish()
        if training.status.startswith("diverged"):
            # Told only now that the summary is there: a search stops the trial at once.
            report({"epoch": len(training.history) + 1, "accuracy": 0.0, "diverged": True, "train_seconds": 0.0})
        return summary


class Training:
    """A run between two epochs, and the steps from one to the next."""

    def __init__(self, config: Config, folder: RunFolder, accelerator: Accelerator, data: RunData) -> None:
        seed_step(config.seed, 0, 0, 0, accelerator.device)
        self.config, self.folder, self.accelerator, self.data = config, folder, accelerator, data
        method = config.method.build(config.backbone, data.num_classes, data.image_shape)
        self.method = method.to(accelerator.device)
        if config.synchronize_batch_norm:
            convert_batch_norm(self.method)
        self.optimizer = build_optimizer(self.method, config.optimizer)
        self.schedule = build_schedule(self.optimizer, config.schedule, config.epochs)
        self.history: list[Record] = []
        self.best: Record = {"epoch": 0, "accuracy": -math.inf}
        self.status = "running"

    def resume_or_initialise(self) -> None:
        """Continues from the folder's state if there is one; only then hands the method to the workers' wrapper."""
        if (state := self.folder.read_state()) is not None:
            self.method.load_state_dict(state["method"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            self.history, self.best = state["history"], state["best"]
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(state["scaler"])
            if self.accelerator.is_main_process and self.selected_epoch() == len(self.history):
                # The interruption may have come between the state and the model file: the state has its weights.
                self.folder.write_model(state["method"], len(self.history))
        else:
            self.method.initialise_from_data(self.data.initial_batches())
        self.wrapped_method, self.wrapped_optimizer = self.accelerator.prepare(self.method, self.optimizer)

    def fit(self, report: Report) -> None:
        """Trains until the run is over."""
        for epoch in range(len(self.history), self.config.epochs):
            if self.stops_early():
                self.status = "stopped early"
                return
            self.schedule.start_epoch(epoch)
            try:
                record = self.train_epoch(epoch) | self.measure()
            except (Diverged, OutputsNotFinite) as divergence:
                # The second is met where the weights blew up in the last step of an epoch.
                self.status = f"diverged: {divergence}"
                return
            self.schedule.end_epoch(record["accuracy"])
            self.save(record)
            report(record)
        self.status = "complete"

    def train_epoch(self, epoch: int) -> Record:
        """One pass over the training batches; returns mean loss and logs, the learning rate, and the speed."""
        start, images = time.perf_counter(), 0
        losses: list[float] = []
        logs: dict[str, list[torch.Tensor]] = {}
        self.wrapped_method.train()
        for step, batch in enumerate(self.data.training.epoch(epoch)):
            progress = Progress(epoch, step, self.config.epochs, self.data.training.steps_per_epoch)
            generator = seed_step(
                self.config.seed, epoch, step, self.accelerator.process_index, self.accelerator.device
            )
            output = self.wrapped_method(batch, progress, generator)
            loss = self.accelerator.reduce(output.loss.detach(), "mean").item()
            if not math.isfinite(loss):
                raise Diverged(loss, epoch + 1, losses)
            losses.append(loss)
            self.accelerator.backward(output.loss)
            self.wrapped_optimizer.step()
            self.wrapped_optimizer.zero_grad()
            self.method.after_step(progress)
            images += len(batch.labels_B) * self.accelerator.num_processes
            for name, value in output.logs.items():
                logs.setdefault(name, []).append(value)
        seconds = time.perf_counter() - start
        means = {name: self.accelerator.reduce(torch.stack(values).mean(), "mean") for name, values in logs.items()}
        return {
            "epoch": epoch + 1,
            "loss": math.fsum(losses) / len(losses),
            **{name: mean.item() for name, mean in means.items()},
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "train_seconds": seconds,
            "images_per_second": images / seconds,
        }

    def measure(self) -> Record:
        """The monitor's metrics on the validation split; its `accuracy` selects and stops."""
        start = time.perf_counter()
        broadcast_buffers(self.method)
        self.method.eval()
        metrics = self.config.monitor.run(self.method, self.data.evaluation(self.config.data.validation_split))
        values: Record = {metric.name: metric.value for metric in metrics}
        return values | {"measure_seconds": time.perf_counter() - start}

    def save(self, record: Record) -> None:
        """Records the epoch; the selected weights are those of the best accuracy (the first of equals) or the last."""
        self.history.append(record)
        if record["accuracy"] > self.best["accuracy"]:
            self.best = {"epoch": record["epoch"], "accuracy": record["accuracy"]}
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            scaler = self.accelerator.scaler
            state: dict[str, Any] = {
                "method": self.method.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "scaler": scaler.state_dict() if scaler is not None else None,
                "history": self.history,
                "best": self.best,
            }
            self.folder.write_state(state)
            if self.selected_epoch() == record["epoch"]:
                self.folder.write_model(state["method"], record["epoch"])
            self.folder.write_history(self.history)

    def selected_epoch(self) -> int:
        """The epoch, counted from 1, whose weights are the result so far."""
        return self.best["epoch"] if self.config.selection == "best" else len(self.history)

    def stops_early(self) -> bool:
        patience = self.config.early_stop_epochs
        return patience is not None and bool(self.history) and len(self.history) - self.best["epoch"] >= patience

    def finish(self) -> Record:
        """Writes the summary of a run that is over."""
        summary = {
            "recipe": self.config.recipe,
            "status": self.status,
            "epochs": len(self.history),
            "best_epoch": self.best["epoch"],
            "selected_epoch": self.selected_epoch(),
            "accuracy": self.history[self.selected_epoch() - 1]["accuracy"] if self.history else None,
            "split": f"{self.config.data.name} {self.config.data.validation_split}",
            "train_seconds": sum(record["train_seconds"] for record in self.history),
            "seed": self.config.seed,
            "versions": versions(),
            "hardware": hardware(self.accelerator),
        }
        if self.accelerator.is_main_process:
            self.folder.write_history(self.history)
            self.folder.finish(summary)
        return summary
