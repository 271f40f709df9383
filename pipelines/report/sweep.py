"""What the page says about a search: its outcome first, then its trials, its costs, and how to run it again."""

import math
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

from pipelines.analysis import Table, best_table, read_json, search_efficiency
from pipelines.analysis.best import metrics_on_test
from pipelines.analysis.folders import field_value
from pipelines.analysis.tables import MISSING, percent
from pipelines.analysis.trials import STATUSES

from . import sections
from .folder import Sweep
from .page import Article, bullets, command, missing, paragraph, section, table
from .run import leaves

PLAN_OPTIONS = ("epochs", "reduction_factor", "cpus_per_trial", "gpus_per_trial")
SET_BY_THE_SEARCH = ("epochs", "early_stop_epochs", "threads", "root", "seed", "device")


def sweep_report(path: Path) -> Article:
    """The article about a search. Raises `ConfigurationError` for damaged files."""
    sweep = Sweep(path)
    parts = [opening(sweep), best_rows(sweep)]
    if sweep.frame["accuracy"].notna().any():
        parts += [sections.curves(sweep), sections.accuracy_by_value(sweep), sections.halving(sweep)]
    else:
        gap = "No trial has finished an epoch, so there are no curves yet."
        parts.append(section("Learning curves", missing(gap, sweep.resume_command)))
    parts += [sections.embeddings(sweep), sections.calibration(sweep), time_spent(sweep), how_to(sweep)]
    return Article(title=sweep.plan["title"], html="\n".join(parts))


def opening(sweep: Sweep) -> str:
    """What was searched, when and on what, and the outcome in one sentence."""
    counts = sweep.frame["status"].value_counts()
    fates_text = ", ".join(f"{counts[status]} {status}" for status in STATUSES if status in counts)
    plan = sweep.plan
    searched = (
        f"Grid search {plan['study']}: {len(sweep.frame)} trials of up to {plan['epochs']} epochs over "
        f"{len(plan['recipes'])} objectives ({fates_text}), one ASHA bracket per objective. {_when_and_where(sweep)}"
    )
    return paragraph(searched, "about") + "\n" + paragraph(_headline(sweep), "headline")


def best_rows(sweep: Sweep) -> str:
    content = best_table(sweep.path)
    unfinished = [name for name in sweep.labels.values() if name not in sweep.best]
    gap = f"No trial of {', '.join(unfinished)} has finished yet; continuing the search finishes them."
    return section(
        "Best rows beside the published ones",
        table(content.hyperparameters, sweep.colours),
        table(content.results, sweep.colours),
        missing(gap, sweep.resume_command) if unfinished else "",
        bullets(content.notes),
    )


def time_spent(sweep: Sweep) -> str:
    """What the search took, and how much of it was work."""
    rows = []
    for name, frame in sweep.frames.items():
        epochs = int(frame["epochs"].sum())
        seconds = frame["train_seconds"].sum() + frame["measure_seconds"].sum()
        full = len(frame) * sweep.plan["epochs"]
        per_epoch = f"{seconds / epochs:.2f}" if epochs else MISSING
        rows.append([name, str(epochs), f"{100 * epochs / full:.0f}", f"{seconds:.0f}", per_epoch])
    content = Table(["objective", "epochs run", "% of the full grid", "seconds", "seconds per epoch"], rows)
    timing, efficiency = read_json(sweep.path / "timing.json", {}), search_efficiency(sweep.path)
    if math.isnan(efficiency):
        summary = missing(
            "No session of the search has ended, so its whole time is not known yet.", sweep.resume_command
        )
    else:
        summary = paragraph(
            f"The search took {timing['wall_seconds']:.0f} s with {timing['slots']} trials at a time; training took "
            f"{timing['train_seconds']:.0f} s and measuring {timing['measure_seconds']:.0f} s of the slots' time, "
            f"together {100 * efficiency:.0f} % of it. The rest is starting, scheduling and the end of the queue."
        )
    return section("Time", summary, table(content, sweep.colours))


def how_to(sweep: Sweep) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in sweep.summary.get("versions", {}).items())
    data = sweep.plan["base"][sweep.plan["recipes"][0]]["data"]["name"]
    return section(
        "How to reproduce this",
        command(f"hyperspherical prepare {data}\n{_tune_command(sweep.plan)}"),
        paragraph(f"Versions: {versions}.", "about") if versions else "",
        _failures(sweep),
    )


def _headline(sweep: Sweep) -> str:
    tested = {name: metrics_on_test(sweep.folder(trial)).get("accuracy") for name, trial in sweep.best.items()}
    ranked = sorted(((m["value"], name, m) for name, m in tested.items() if m), key=lambda entry: -entry[0])
    if not ranked:
        finished = int((sweep.frame["status"] == "complete").sum())
        return (
            f"{finished} of {len(sweep.frame)} trials have finished; none of the best is measured on the test set yet."
        )
    value, first, metric = ranked[0]
    close = [name for other, name, _ in ranked[1:] if other >= value - 2 * metric["standard_error"]]
    lead = (
        f"{first} has the highest test accuracy, {percent(value, metric['standard_error'])} % on {metric['n']:,} images"
    )
    if not close:
        return f"{lead}; no other objective is within two standard errors of it."
    listed = " and ".join(filter(None, [", ".join(close[:-1]), close[-1]]))
    return f"{lead}; {listed} {'is' if len(close) == 1 else 'are'} within two standard errors of it."


def _when_and_where(sweep: Sweep) -> str:
    ended = max(file.stat().st_mtime for file in [sweep.path / "plan.json", *sweep.path.glob("trials/*/metrics.jsonl")])
    when = f"Last epoch recorded {datetime.fromtimestamp(ended):%d %B %Y, %H:%M}"
    if not (hardware := sweep.summary.get("hardware")):
        return f"{when}."
    return f"{when}, on {hardware['device']} ({hardware['cpus']} CPUs, precision {hardware['precision']})."


def _failures(sweep: Sweep) -> str:
    """The last line of every failed trial's traceback."""
    failed = sweep.frame[sweep.frame["status"] == "failed"]["trial"]
    errors = {trial: (sweep.folder(trial) / "error.txt").read_text().strip().splitlines() for trial in failed}
    lines = [f"{trial}: {lines[-1].strip() if lines else 'no message'}" for trial, lines in errors.items()]
    retry = missing("Continuing the search tries failed trials again.", sweep.resume_command)
    return (
        paragraph(f"{len(lines)} {'trial' if len(lines) == 1 else 'trials'} failed:") + bullets(lines) + retry
        if lines
        else ""
    )


def _tune_command(plan: dict[str, Any]) -> str:
    """The command that makes the same plan: lengths, seed, what was changed in all trials, and the grid."""
    first = plan["recipes"][0]
    published = leaves(plan["published"][first])
    changed = [
        f"{field}={value}"
        for field, value in leaves(plan["base"][first]).items()
        if value != published.get(field) and field not in SET_BY_THE_SEARCH and not _in_notes(field, plan)
    ]
    options = {
        name: plan[name]
        for name in ("epochs", "reduction_factor", "cpus_per_trial", "gpus_per_trial")
        if plan.get(name)
    }
    options |= {"grace_epochs": plan["rungs"][0], "seed": field_value(plan["base"][first], "seed")}
    words = ["hyperspherical", "tune", plan["study"]]
    words += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words += ["--set", *changed] if changed else []
    words += ["--grid", *[f"{field}={','.join(map(str, values))}" for field, values in plan["grid"].items()]]
    return shlex.join(words).replace(" --", " \\\n    --")


def _in_notes(field: str, plan: dict[str, Any]) -> bool:
    """Whether the plan's notes tell of the field: lengths that were scaled with the epochs, and will be again."""
    return any(field in note for note in plan.get("notes", []))
