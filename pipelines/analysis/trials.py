"""The trials of a sweep as a table: one row for each that was planned, whatever became of it."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.files import read_json, read_lines, replace_file

from .folders import field_value, read_plan

if TYPE_CHECKING:
    import pandas
    import pyarrow

STATUSES = ("complete", "stopped by ASHA", "diverged", "failed", "interrupted", "waiting")
"""What becomes of a trial. "interrupted" has begun and not ended, so also while it runs."""


def trials_frame(sweep: Path) -> "pandas.DataFrame":
    """One row per planned trial: configuration, status, curves and times. Raises `ConfigurationError` for a bad folder.

    `published` marks the trial that has the published row's values in every searched field.
    """
    import pandas

    plan = read_plan(sweep)
    stopped = {line["trial"] for line in read_lines(sweep / "decisions.jsonl") if line["stopped"]}
    rows = [
        _outcome(sweep / "trials" / trial["trial"], trial, plan, trial["trial"] in stopped)
        | {"published": _is_published(trial, plan["published"][trial["recipe"]])}
        | {name: planned_value(trial, plan, name) for name in configuration_columns(plan)}
        for trial in plan["trials"]
    ]
    return pandas.DataFrame(rows)


def configuration_columns(plan: dict[str, Any]) -> list[str]:
    """The dotted fields that the frame shows: those of the paper's table, then what else the grid varies."""
    return list(dict.fromkeys([*plan["columns"].values(), *plan["grid"]]))


def planned_value(trial: dict[str, Any], plan: dict[str, Any], name: str) -> Any:
    """A field of a trial's configuration, or None where its recipe has no such field."""
    changes = trial["changes"]
    return changes[name] if name in changes else field_value(plan["base"][trial["recipe"]], name)


def write_trials(sweep: Path) -> Path:
    """Writes trials.parquet from the sweep's folder. Raises `ConfigurationError` for a bad folder."""
    import pyarrow
    from pyarrow import parquet

    frame = trials_frame(sweep)
    columns = {name: _arrow_column(name, frame[name].tolist()) for name in frame.columns}
    return replace_file(
        sweep / "trials.parquet", lambda temporary: parquet.write_table(pyarrow.table(columns), temporary)
    )


def search_efficiency(sweep: Path) -> float:
    """Seconds spent training and measuring over the seconds that all slots were held; NaN before any was recorded."""
    timing = read_json(sweep / "timing.json", {})
    slot_seconds = timing.get("slot_seconds", 0.0)
    return (timing["train_seconds"] + timing["measure_seconds"]) / slot_seconds if slot_seconds else math.nan


def standard_error(share: float | None, images: int | None) -> float | None:
    """The binomial standard error of a share of `images` images, or None where either is unknown."""
    return math.sqrt(share * (1 - share) / images) if share is not None and images else None


def _outcome(folder: Path, trial: dict[str, Any], plan: dict[str, Any], stopped: bool) -> dict[str, Any]:
    records = read_lines(folder / "metrics.jsonl")
    accuracies = [record["accuracy"] for record in records]
    # Where a run keeps its last weights, an earlier peak is not what the trial has to show.
    keeps_last = planned_value(trial, plan, "selection") == "last"
    best = accuracies[-1] if keeps_last and accuracies else max(accuracies, default=None)
    return {
        "trial": trial["trial"],
        "recipe": trial["recipe"],
        "status": _status(folder, stopped, len(records) >= planned_value(trial, plan, "epochs")),
        "epochs": len(records),
        "accuracy": math.nan if best is None else best,
        "standard_error": standard_error(best, plan.get("validation_images")),
        "best_epoch": 0 if best is None else len(accuracies) if keeps_last else accuracies.index(best) + 1,
        "loss": records[-1]["loss"] if records else math.nan,
        "accuracy_curve": accuracies,
        "loss_curve": [record["loss"] for record in records],
        "train_seconds": math.fsum(record["train_seconds"] for record in records),
        "measure_seconds": math.fsum(record["measure_seconds"] for record in records),
    }


def _status(folder: Path, stopped: bool, has_all_epochs: bool) -> str:
    if summary := read_json(folder / "summary.json", {}):
        return "diverged" if summary["status"].startswith("diverged") else "complete"
    # The last rung is the last epoch: a trial that ASHA stops there has lost nothing.
    if has_all_epochs:
        return "complete"
    if (folder / "error.txt").exists():
        return "failed"
    if stopped:
        return "stopped by ASHA"
    return "interrupted" if (folder / "config.json").exists() else "waiting"


def _is_published(trial: dict[str, Any], published: dict[str, Any]) -> bool:
    return all(field_value(published, name) == value for name, value in trial["changes"].items())


def _arrow_column(name: str, values: list[Any]) -> "pyarrow.Array":
    """A column whose type follows from its name or kind alone, so that the files of all sweeps can be read together."""
    import pyarrow

    if name.endswith("_curve"):
        return pyarrow.array(values, pyarrow.list_(pyarrow.float64()))
    known = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    kinds = {type(value) for value in known if value is not None}
    if kinds <= {int} and name in ("epochs", "best_epoch"):
        return pyarrow.array(known, pyarrow.int64())
    if kinds and kinds <= {bool}:
        return pyarrow.array(known, pyarrow.bool_())
    if kinds <= {int, float}:
        return pyarrow.array([None if value is None else float(value) for value in known], pyarrow.float64())
    return pyarrow.array([None if value is None else str(value) for value in known], pyarrow.string())
