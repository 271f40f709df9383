"""The plan of a search: its trials, decided before the first one starts and kept in `plan.json`."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import (
    ArcFace,
    Config,
    ConfigurationError,
    RampUpDown,
    change,
    field_names,
    from_dict,
    get,
    nearest,
    to_dict,
    validate,
)
from .files import write_json
from .recipes import Study, recipe

ORDER_SEED = 0
DECIDED_BY_SEARCH = ("recipe", "epochs", "root", "device", "workers", "threads")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point of a grid."""

    trial: str
    """Name, and name of its folder."""
    recipe: str
    changes: dict[str, Any]
    """Dotted field: value, applied to the recipe's base configuration."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a search does, so that `--resume` needs nothing else."""

    study: str
    title: str
    columns: dict[str, str]
    grid: dict[str, list[Any]]
    recipes: list[str]
    published: dict[str, dict[str, Any]]
    """Configurations as the paper states them."""
    base: dict[str, dict[str, Any]]
    """The same, shortened to the search's epochs; trials change these."""
    epochs: int
    rungs: list[int]
    reduction_factor: int
    validation_images: int
    cpus_per_trial: float
    gpus_per_trial: float
    notes: list[str]
    trials: list[Trial]

    def config(self, trial: Trial) -> Config:
        return change(from_dict(Config, self.base[trial.recipe]), trial.changes)

    def write(self, sweep: Path) -> None:
        write_json(sweep / "plan.json", self.to_json())

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "trials": [vars(trial) for trial in self.trials]}

    @staticmethod
    def read(sweep: Path) -> "Plan":
        """Raises `ConfigurationError` if the folder holds no plan."""
        try:
            values = json.loads((sweep / "plan.json").read_text())
            return Plan(**{**values, "trials": [Trial(**trial) for trial in values["trials"]]})
        except (OSError, ValueError, TypeError, KeyError):
            raise ConfigurationError([f"{sweep} is not the folder of a search: it has no readable plan.json"]) from None


def make_plan(
    name: str,
    study: Study,
    *,
    epochs: int | None,
    reduction_factor: int,
    grace_epochs: int,
    validation_images: int,
    cpus_per_trial: float,
    gpus_per_trial: float,
    common: dict[str, Any],
) -> Plan:
    """All points of the study's grid for each of its recipes, in random order, the same for all of them.

    Recipes are interleaved, so that each fills its rungs early.

    `common` changes every trial. Raises `ConfigurationError` with all faults of all trials.
    """
    notes: list[str] = []
    base: dict[str, Config] = {}
    for member in study.recipes:
        base[member], scaled = shorten(recipe(member), epochs or recipe(member).epochs)
        if base[member].data.validation_split == "test":
            # The paper watches the test set; a search that selects on it would be worth nothing.
            base[member] = change(base[member], {"data.train_split": "train", "data.validation_split": "validation"})
            scaled.append("trains on 85 % of the training images and selects on the rest, not on the test set")
        threads = max(1, int(cpus_per_trial))
        base[member] = change(base[member], {"early_stop_epochs": None, "threads": threads, **common})
        notes += [f"{member}: {note}" for note in scaled]
    notes += [
        f"in every trial {field} is {common[field]}, unlike in the published row" for field in common if "." in field
    ]
    check_grid(study, base)
    # In the grid's own order, good values might come last, and a trial that beats all before it is never stopped.
    points = random.Random(ORDER_SEED).sample(study.points(), len(study.points()))
    trials: list[Trial] = []
    faults: list[str] = []
    for number, point in enumerate(points):
        for member in study.recipes:
            changes = {field: value for field, value in point.items() if applies(field, base[member])}
            trial = Trial(trial=f"{member.split('/')[-1]}-{number:03d}", recipe=member, changes=changes)
            if any(known.recipe == member and known.changes == changes for known in trials):
                continue
            trials.append(trial)
            try:
                validate(change(base[member], changes))
            except ConfigurationError as error:
                faults += [f"{trial.trial}: {fault}" for fault in error.faults]
    if faults:
        raise ConfigurationError(faults)
    length = max(config.epochs for config in base.values())
    return Plan(
        study=name,
        title=study.title,
        columns=study.columns,
        grid=study.grid,
        recipes=list(study.recipes),
        published={member: to_dict(recipe(member)) for member in study.recipes},
        base={member: to_dict(config) for member, config in base.items()},
        epochs=length,
        rungs=rungs(grace_epochs, length, reduction_factor),
        reduction_factor=reduction_factor,
        validation_images=validation_images,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        notes=notes,
        trials=trials,
    )


def check_grid(study: Study, base: dict[str, Config]) -> None:
    """Raises `ConfigurationError` for fields that no recipe has, and for those that the search itself decides."""
    known = sorted({field for config in base.values() for field in field_names(config)})
    faults = []
    for field in study.grid:
        if field not in known:
            faults.append(f"the grid's {field} is no field of any recipe{nearest(field, known)}")
        elif field in DECIDED_BY_SEARCH:
            faults.append(f"the grid's {field} cannot vary: the search decides it")
    if faults:
        raise ConfigurationError(faults)


def applies(field: str, config: Config) -> bool:
    """Whether a field of the grid means anything for a recipe; a temperature's rate does not without a temperature."""
    is_absent_rate = field == "optimizer.temperature_learning_rate" and get(config, field) is None
    return field in field_names(config) and not is_absent_rate


def rungs(grace_epochs: int, epochs: int, reduction_factor: int) -> list[int]:
    """The epochs at which successive halving compares trials: grace, grace r, grace r^2, ..., up to the last epoch."""
    found = [grace_epochs]
    while found[-1] * reduction_factor <= epochs:
        found.append(found[-1] * reduction_factor)
    return found


def shorten(config: Config, epochs: int, given: frozenset[str] = frozenset()) -> tuple[Config, list[str]]:
    """The configuration for a run of `epochs`, and a sentence for each length that was scaled with it.

    Ramps keep their share of the run. ArcFace's epochs without margin, which the papers count against runs of hundreds
    of epochs, take at most a quarter of the run (and one epoch of two or three). Fields in `given` stay as they are.
    """
    changes: dict[str, Any] = {"epochs": epochs}
    share = epochs / config.epochs
    if isinstance(config.schedule, RampUpDown) and share < 1:
        for field in ("schedule.ramp_up_epochs", "schedule.ramp_down_epochs", "method.ramp_up_epochs"):
            if length := get(config, field):
                changes[field] = max(1, round(length * share))
    if isinstance(get(config, "method.objective"), ArcFace):
        field = "method.objective.margin_free_epochs"
        changes[field] = min(get(config, field), max(1, epochs // 4) if epochs > 1 else 0)
    changes = {field: value for field, value in changes.items() if field not in given and value != get(config, field)}
    notes = [
        f"{field} is {value} here and {get(config, field)} in the paper, because this run has {epochs} epochs"
        for field, value in changes.items()
        if field != "epochs"
    ]
    return change(config, changes), notes
