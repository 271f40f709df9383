"""A run folder: one writer at a time, every file whole or absent, and everything that resuming needs.

config.json        the configuration, which runs again with `train --config`
metrics.jsonl      one line per epoch
model.safetensors  the selected weights, with the configuration and the epoch in its metadata
summary.json       final figures with seed, versions and hardware; its presence means that the run is complete
state.pt           what an interrupted run continues from
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .config import Config, ConfigurationError, identity, load, to_dict
from .files import hold, read_lines, remove_leftovers, replace_file, write_json

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
        if (path / "plan.json").exists():
            raise ConfigurationError([f"{path} holds a search: give another folder with --run"])
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
        return read_lines(self.metrics_file)

    @contextlib.contextmanager
    def lock(self, writes: bool = True) -> Iterator[None]:
        """Holds the folder for this process if it `writes`; free again when the process ends, however it ends."""
        if not writes:
            yield
            return
        with hold(self.path, f"another process is writing {self.path}: wait for it, or give another folder"):
            remove_leftovers(self.path)
            yield

    def write_state(self, state: dict[str, Any]) -> None:
        """Records a finished epoch: what a run continues from. The other files follow from it."""
        import torch

        replace_file(self.state_file, lambda temporary: torch.save(state, temporary))

    def write_model(self, weights: dict[str, Any], epoch: int) -> None:
        """Writes the selected weights."""
        from safetensors.torch import save_file

        metadata = {"config": self.config_file.read_text(), "epoch": str(epoch)}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        replace_file(self.model_file, lambda temporary: save_file(tensors, temporary, metadata))

    def write_history(self, history: list[Record]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in history)
        replace_file(self.metrics_file, lambda temporary: temporary.write_text(lines))

    def read_state(self) -> dict[str, Any] | None:
        """What `write_state` wrote last, on the CPU, or None."""
        if not self.state_file.exists():
            return None
        import torch

        return torch.load(self.state_file, map_location="cpu", weights_only=True)

    def finish(self, summary: Record) -> None:
        write_json(self.summary_file, summary)
