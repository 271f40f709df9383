"""A run folder: one writer at a time, every file whole or absent, and everything that resuming needs.

config.json        the configuration, which runs again with `train --config`
metrics.jsonl      one line per epoch
model.safetensors  the selected weights, with the configuration and the epoch in its metadata
summary.json       final figures with seed, versions and hardware; its presence means that the run is complete
state.pt           what an interrupted run continues from
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from .config import Config, ConfigurationError, identity, load, to_dict

Record = dict[str, Any]
"""One line of metrics.jsonl."""


class RunFolder:
    """The files of one run. Created empty, or opened where an equal configuration has run before.

    Raises `ConfigurationError` if the folder holds another configuration.
    """

    def __init__(self, path: Path, config: Config | None = None) -> None:
        self.path = path
        if config is None:
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not self.config_file.exists():
                write_json(self.config_file, to_dict(config))
        except OSError as error:
            raise ConfigurationError([f"the run folder {path} cannot be written: {error.strerror}"]) from None
        if identity(load(self.config_file)) != identity(config):
            raise ConfigurationError([f"{path} holds a run of another configuration: give another folder with --run"])

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def model_file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def state_file(self) -> Path:
        return self.path / "state.pt"

    def config(self) -> Config:
        return load(self.config_file)

    def summary(self) -> Record | None:
        """The final figures, or None while the run is not complete."""
        return json.loads(self.summary_file.read_text()) if self.summary_file.exists() else None

    def records(self) -> list[Record]:
        """The epochs so far."""
        if not self.metrics_file.exists():
            return []
        return [json.loads(line) for line in self.metrics_file.read_text().splitlines()]

    @contextlib.contextmanager
    def lock(self, writes: bool = True) -> Iterator[None]:
        """Holds the folder for this process if it `writes`; free again when the process ends, however it ends."""
        if not writes:
            yield
            return
        with hold(self.path, f"another process is writing {self.path}: wait for it, or give another folder"):
            yield

    def save_epoch(self, state: dict[str, Any], history: list[Record], weights: dict[str, Any] | None) -> None:
        """Records a finished epoch. `weights` are the selected weights if this epoch has new ones.

        The order makes every interruption harmless: the state counts the epoch only after its weights are there, and a
        repeated epoch gives the same weights again.
        """
        if weights is not None:
            from safetensors.torch import save_file

            metadata = {"config": self.config_file.read_text(), "epoch": str(history[-1]["epoch"])}
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
            replace_file(self.model_file, lambda temporary: save_file(tensors, temporary, metadata))
        replace_file(self.state_file, lambda temporary: torch.save(state, temporary))
        self.write_history(history)

    def write_history(self, history: list[Record]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in history)
        replace_file(self.metrics_file, lambda temporary: temporary.write_text(lines))

    def read_state(self, device: torch.device) -> dict[str, Any] | None:
        """What `save_epoch` wrote last, or None."""
        if not self.state_file.exists():
            return None
        return torch.load(self.state_file, map_location=device, weights_only=True)

    def finish(self, summary: Record) -> None:
        write_json(self.summary_file, summary)


@contextlib.contextmanager
def hold(folder: Path, refusal: str) -> Iterator[None]:
    """An exclusive lock on a folder. Raises `ConfigurationError` with `refusal` if another process has it."""
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError([refusal]) from None
        yield


def write_json(path: Path, values: Any) -> None:
    """Writes a JSON file that is whole or absent."""
    replace_file(path, lambda temporary: temporary.write_text(json.dumps(values, indent=2) + "\n"))


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Calls `write` with a temporary path in the same folder, then puts that file in the place of `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
