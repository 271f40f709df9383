"""The folder of a search, as the sections of its report see it."""

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.analysis import best_trials, read_json, read_plan, trials_frame
from pipelines.analysis.best import label

from .figures import Frames
from .outputs import Outputs, read_outputs
from .style import colours_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Sweep:
    """The folder of a search, read once."""

    path: Path

    @cached_property
    def plan(self) -> dict[str, Any]:
        return read_plan(self.path)

    @cached_property
    def frame(self) -> "pandas.DataFrame":
        return trials_frame(self.path)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Recipe: the name of its objective."""
        return {recipe: label(recipe, self.plan["study"]) for recipe in self.plan["recipes"]}

    @cached_property
    def frames(self) -> Frames:
        return {name: self.frame[self.frame["recipe"] == recipe] for recipe, name in self.labels.items()}

    @cached_property
    def best(self) -> dict[str, str]:
        """Label: the best trial."""
        return {self.labels[recipe]: trial for recipe, trial in best_trials(self.frame).items()}

    @cached_property
    def outputs(self) -> dict[str, Outputs]:
        read = {name: read_outputs(self.folder(self.best[name])) for name in self.labels.values() if name in self.best}
        return {name: outputs for name, outputs in read.items() if outputs is not None}

    @cached_property
    def colours(self) -> dict[str, str]:
        return colours_of(list(self.labels.values()))

    def folder(self, trial: str) -> Path:
        return self.path / "trials" / trial

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of any trial that has one: all ran on alike hardware with the same versions."""
        files = (self.folder(trial) / "summary.json" for trial in self.frame["trial"])
        return next((read_json(file, {}) for file in files if file.is_file()), {})

    @property
    def trials_that_ran(self) -> int:
        return int((self.frame["epochs"] > 0).sum())

    @property
    def resume_command(self) -> str:
        return f"hyperspherical tune --resume {shlex.quote(str(self.path))}"
