"""The best trial of each recipe, its ties, and where the published row stands among the trials of its grid."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.files import read_json, replace_file

from .folders import field_value, read_plan
from .tables import MISSING, BestTable, Table, cell, percent
from .trials import configuration_columns, planned_value, standard_error, trials_frame

if TYPE_CHECKING:
    import pandas

RULES = [
    "Ours is the finished trial with the highest validation accuracy of any epoch; of equals, the one that reached it "
    "in fewer epochs, then the one planned first.",
    "The published row's rank counts the trials that were more accurate at the last epoch which both had finished, "
    "because a trial that ASHA stopped had less time; a diverged trial ranks behind all others.",
    "± is one binomial standard error over the images of the split, from one seed. Ties are the other trials, finished "
    "or stopped, within two standard errors of the best validation accuracy.",
    "The paper's accuracies are not in our sources: its supplement lists hyperparameters only.",
]


def best_trials(frame: "pandas.DataFrame") -> dict[str, str]:
    """For each recipe that has a finished trial, the name of the best one: the most accurate, of equals the fastest."""
    finished = frame[frame["status"] == "complete"].dropna(subset="accuracy")
    # A stable sort keeps the plan's order among those that are equal in both.
    ordered = finished.sort_values(["accuracy", "best_epoch"], ascending=[False, True], kind="stable")
    return {recipe: ordered[ordered["recipe"] == recipe]["trial"].iloc[0] for recipe in finished["recipe"].unique()}


def published_rank(frame: "pandas.DataFrame", recipe: str) -> tuple[int, int] | None:
    """The published row's rank among the trials of its recipe that have run, and how many those are.

    None if the row is not in the grid, has not run, or failed.
    """
    ran = frame[(frame["recipe"] == recipe) & ((frame["epochs"] > 0) | (frame["status"] == "diverged"))]
    ran = ran[ran["status"] != "failed"].to_dict("records")
    published = next((trial for trial in ran if trial["published"]), None)
    if published is None:
        return None
    return 1 + sum(_was_better(trial, published) for trial in ran if trial is not published), len(ran)


def ties(frame: "pandas.DataFrame", trial: str) -> list[str]:
    """The other trials of the recipe whose best accuracy is within two standard errors of that of `trial`."""
    best = frame[frame["trial"] == trial].iloc[0]
    if math.isnan(error := _number(best["standard_error"])):
        return []
    rivals = frame[(frame["recipe"] == best["recipe"]) & (frame["trial"] != trial) & (frame["status"] != "diverged")]
    return list(rivals[rivals["accuracy"] >= best["accuracy"] - 2 * error]["trial"])


def best_table(sweep: Path) -> BestTable:
    """The best row of each recipe in the form of the paper's table. Raises `ConfigurationError` for a bad folder."""
    plan, frame = read_plan(sweep), trials_frame(sweep)
    best = best_trials(frame)
    hyperparameters, results = [], []
    for recipe in plan["recipes"]:
        name, columns = label(recipe, plan["study"]), plan["columns"].values()
        ours = next((trial for trial in plan["trials"] if trial["trial"] == best.get(recipe)), None)
        cells = [cell(planned_value(ours, plan, field)) if ours else MISSING for field in columns]
        hyperparameters.append([name, "ours", *cells])
        published = plan["published"][recipe]
        hyperparameters.append(["", "published", *[cell(field_value(published, field)) for field in columns]])
        results.append([name, *_result_cells(sweep, frame, recipe, best.get(recipe))])
    headings = [
        "trial",
        "val. acc. %",
        "test acc. %",
        "trials",
        "finished",
        "ties",
        "published rank",
        "its val. acc. %",
    ]
    return BestTable(
        title=plan["title"],
        hyperparameters=Table(["objective", "row", *plan["columns"]], hyperparameters, labels=2),
        results=Table(["objective", *headings], results, labels=2),
        notes=[*plan.get("notes", []), *RULES],
    )


def write_best(sweep: Path) -> Path:
    """Writes best.json: for each recipe the best trial with its figures, and where the published row stands."""
    import json

    plan, frame = read_plan(sweep), trials_frame(sweep)
    planned = {trial["trial"]: trial for trial in plan["trials"]}
    recipes = {}
    for recipe, trial in best_trials(frame).items():
        row = frame[frame["trial"] == trial].iloc[0]
        rank = published_rank(frame, recipe)
        recipes[recipe] = {
            "trial": trial,
            "changes": planned[trial]["changes"],
            "configuration": {name: planned_value(planned[trial], plan, name) for name in configuration_columns(plan)},
            "validation_accuracy": float(row["accuracy"]),
            "standard_error": _known(row["standard_error"]),
            "best_epoch": int(row["best_epoch"]),
            "test": metrics_on_test(sweep / "trials" / trial),
            "trials": int((frame["recipe"] == recipe).sum()),
            "published_rank": rank and {"rank": rank[0], "of": rank[1]},
            "ties": ties(frame, trial),
        }
    text = json.dumps({"study": plan["study"], "title": plan["title"], "recipes": recipes}, indent=2) + "\n"
    return replace_file(sweep / "best.json", lambda temporary: temporary.write_text(text))


def metrics_on_test(run: Path) -> dict[str, dict[str, Any]]:
    """The metrics of a run's evaluations on a test split by name, the accuracy with its standard error."""
    found: dict[str, dict[str, Any]] = {}
    for metric in read_json(run / "evaluations.json", []):
        if metric["data"].split()[-1] == "test":
            found.setdefault(metric["name"], metric)
    if accuracy := found.get("accuracy"):
        found["accuracy"] = accuracy | {"standard_error": standard_error(accuracy["value"], accuracy["n"])}
    return found


def label(recipe: str, study: str) -> str:
    """A recipe's name within its study, in capitals as the papers write objectives."""
    name = recipe.removeprefix(f"{study}-")
    return (name if name != recipe else recipe.rsplit("-", 1)[-1]).upper()


def _result_cells(sweep: Path, frame: "pandas.DataFrame", recipe: str, trial: str | None) -> list[str]:
    rows = frame[frame["recipe"] == recipe]
    counts = [str(len(rows)), str(int((rows["status"] == "complete").sum()))]
    rank = published_rank(frame, recipe)
    published = rows[rows["published"]].to_dict("records")
    standing = [f"{rank[0]} of {rank[1]}" if rank else MISSING, _reached(published[0]) if published else "not in grid"]
    if trial is None:
        return [MISSING, MISSING, MISSING, *counts, MISSING, *standing]
    best = rows[rows["trial"] == trial].iloc[0]
    error = _known(best["standard_error"])
    test = metrics_on_test(sweep / "trials" / trial).get("accuracy", {})
    accuracies = [percent(best["accuracy"], error), percent(test.get("value"), test.get("standard_error"))]
    return [trial, *accuracies, *counts, str(len(ties(frame, trial))) if error is not None else MISSING, *standing]


def _reached(trial: dict[str, Any]) -> str:
    fate = {"complete": "", "stopped by ASHA": f" (stopped at {trial['epochs']})"}.get(trial["status"])
    accuracy = percent(_known(trial["accuracy"]))
    return f"{accuracy}{fate}" if fate is not None else f"{accuracy} ({trial['status']})"


def _was_better(trial: dict[str, Any], other: dict[str, Any]) -> bool:
    diverged, other_diverged = trial["status"] == "diverged", other["status"] == "diverged"
    if diverged or other_diverged:
        return other_diverged and not diverged
    both = min(trial["epochs"], other["epochs"])
    return bool(max(trial["accuracy_curve"][:both]) > max(other["accuracy_curve"][:both]))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _known(value: Any) -> float | None:
    return None if math.isnan(number := _number(value)) else number
