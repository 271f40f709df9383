"""The commands of `hyperspherical`, one function each: arguments in, exit code out."""

import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from .command_line import Failure, parse
from .config import Config, ConfigurationError, identity, load, validate
from .config.constraints import Count, CountFromZero, NonNegative, Positive, Range
from .data_checks import check_data, check_dataset
from .ray_cluster import ClusterExecutor, joined_cluster
from .recipes import RECIPES, STUDIES, recipe
from .runs import RunFolder

ROOT = "data"


@dataclass(frozen=True, kw_only=True)
class RecipesArguments:
    """List every recipe and study."""


def recipes(arguments: list[str]) -> int:
    parse(RecipesArguments, arguments, "recipes")
    print("recipes (hyperspherical train RECIPE)")
    for name, config in RECIPES.items():
        objective = getattr(config.method, "objective", None) or getattr(config.method, "similarity", None)
        parts = [
            type(config.method).__name__,
            type(objective).__name__ if objective else "",
            type(config.backbone).__name__,
        ]
        print(f"  {name:30} {config.data.name:15} {', '.join(filter(None, parts))}")
    print("studies (hyperspherical tune STUDY)")
    for name, study in STUDIES.items():
        print(f"  {name:30} {len(study.recipes)} recipes x {len(study.points())} points: {study.title}")
    return 0


@dataclass(frozen=True, kw_only=True)
class PrepareArguments:
    """Turn a data set's original files into .beton files."""

    dataset: tyro.conf.Positional[str] = ""
    """Name of the data set."""
    list: bool = False
    """List the data sets instead."""
    root: str = ROOT
    """Folder of the prepared data sets."""
    source: str | None = None
    """Folder of the original files; else they are looked for where the system keeps them, then downloaded. With it, a
    name of your own makes a data set of a folder of images: class folders, or train/ and test/ or val/ of them."""
    workers: Count | None = None
    """Processes that read and write images; by default one per CPU."""
    skip_unreadable: CountFromZero = 0
    """As many damaged images are left out and listed in the manifest."""
    corruptions: tuple[str, ...] = ()
    """Of a corrupted data set, those to make; by default all."""
    severities: tuple[int, ...] = ()
    """Of a corrupted data set, those to make, from 1 to 5; by default all."""


def prepare(arguments: list[str]) -> int:
    given = parse(PrepareArguments, arguments, "prepare")
    if given.list:
        return list_datasets()
    if not given.dataset:
        raise ConfigurationError(["prepare needs the name of a data set; `hyperspherical prepare --list` lists them"])
    from data_prep.prepare import prepare as prepare_dataset

    if given.source is None:
        check_dataset(given.dataset, given.root)
    from data_prep.catalogue import CATALOGUE

    known = CATALOGUE.get(given.dataset.replace("-", "_"))
    # On a cluster corrupted images are made by all of its machines and written by this one.
    executor = ClusterExecutor() if joined_cluster() and known is not None and known.clean else None
    workers = executor.workers if executor is not None else len(os.sched_getaffinity(0))
    try:
        prepare_dataset(
            given.dataset,
            Path(given.root),
            Path(given.source) if given.source else None,
            workers=given.workers or workers,
            skip_unreadable=given.skip_unreadable,
            corruptions=given.corruptions or None,
            severities=given.severities or None,
            executor=executor,
        )
    except ValueError as error:
        raise Failure(str(error)) from None
    return 0


def list_datasets() -> int:
    from data_prep.catalogue import CATALOGUE

    rows = [("name", "title", "images", "classes", "size", "storage", "licence", "where from")]
    for entry in CATALOGUE.values():
        size = "any" if entry.image_size is None else f"{entry.image_size} x {entry.image_size} x {entry.channels}"
        size += "" if entry.shorter_edge is None else f", edge <= {entry.shorter_edge}"
        images = f"{entry.train_count + entry.test_count:,}" if entry.clean is None else f"95 x {entry.test_count:,}"
        names = (entry.name, entry.title, images, f"{entry.num_classes:,}", size)
        rows.append((*names, entry.storage, entry.licence, entry.origin))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


@dataclass(frozen=True, kw_only=True)
class TrainArguments:
    """Train one recipe. Options are the recipe's own fields."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    run: str | None = None
    """Folder of the run; by default runs/<recipe>-<digits of the configuration>. An interrupted run continues there."""


def train(arguments: list[str]) -> int:
    if arguments[:1] == ["--config"] and len(arguments) > 1:
        file = Path(arguments[1])
        default = load(file / "config.json" if file.is_dir() else file)
        rest, command = arguments[2:], "train --config FILE"
    elif arguments and not arguments[0].startswith("-"):
        default, rest, command = recipe(arguments[0]), arguments[1:], "train RECIPE"
    elif arguments in (["--help"], ["-h"]):
        default, rest, command = next(iter(RECIPES.values())), ["--help"], "train (RECIPE | --config FILE)"
        print(f"Options differ by recipe; these are those of {default.recipe}: `train RECIPE --help` shows yours.")
    else:
        raise ConfigurationError(["train needs a recipe or --config FILE; `hyperspherical recipes` lists the recipes"])
    given = parse(TrainArguments, rest, command, TrainArguments(config=default))
    config = scale_to_epochs(given.config, default, rest)
    check_data(validate(config).data, config.root)
    path = Path(given.run) if given.run else Path("runs") / f"{config.recipe}-{identity(config)}"

    from .launch import check_data_prepared, launch

    if not (path / "summary.json").exists():
        check_data_prepared(config)
    RunFolder(path, config)
    begun = "already complete" if (path / "summary.json").exists() else f"training for up to {config.epochs} epochs"
    print(f"{config.recipe}: {begun} in {path}", flush=True)
    summary = launch(config, path)
    accuracy = f"{summary['split']} accuracy {percent(summary['accuracy'])} at epoch {summary['selected_epoch']}"
    print(f"{summary['status']}: {accuracy}; {path}")
    return 1 if summary["status"].startswith("diverged") else 0


def scale_to_epochs(config: Config, default: Config, arguments: list[str]) -> Config:
    """Scales ramps with a shorter run, says so, and leaves alone what the user gave."""
    if config.epochs >= default.epochs:
        return config
    from .plan import shorten

    given = frozenset(argument.split("=")[0].removeprefix("--").replace("-", "_") for argument in arguments)
    scaled, notes = shorten(dataclasses.replace(config, epochs=default.epochs), config.epochs, given - {"epochs"})
    for note in notes:
        print(f"note: {note}")
    return scaled


@dataclass(frozen=True, kw_only=True)
class TuneArguments:
    """Search hyperparameters over a grid with early stopping of trials (ASHA), one bracket per recipe."""

    study: tyro.conf.Positional[str] = ""
    """A study, or a recipe, which then is searched alone."""
    resume: str | None = None
    """Folder of a search to continue instead; all other options are then read from it."""
    plan: bool = False
    """Print the trials and stop."""
    epochs: Count | None = None
    """Of the longest trial; by default the recipe's."""
    grid: tuple[str, ...] = ()
    """Another grid than the study's own, as FIELD=VALUE,VALUE ..."""
    set: tuple[str, ...] = ()
    """Fields changed in every trial, as FIELD=VALUE ..."""
    grace_epochs: Count = 1
    """Epochs that every trial gets."""
    reduction_factor: Annotated[int, Range(2)] = 2
    """One in so many trials passes a rung."""
    cpus_per_trial: Positive = 1.0
    """CPUs of a trial, and threads it uses."""
    gpus_per_trial: NonNegative = 0.0
    """GPUs of a trial; a fraction lets trials share one."""
    root: str = ROOT
    """Folder of the prepared data sets."""
    sweep: str | None = None
    """Folder of the search; by default runs/sweeps/<study>-<digits of the plan>."""
    seed: CountFromZero | None = None
    """Of every trial; by default the recipe's."""


def tune(arguments: list[str]) -> int:
    try:
        given = parse(TuneArguments, arguments, "tune")
    except ConfigurationError as error:
        hint = "; in a search, fields of a recipe are --set FIELD=VALUE, or --grid FIELD=VALUE,VALUE to search them"
        raise ConfigurationError([f"{fault}{hint if 'no option' in fault else ''}" for fault in error.faults]) from None
    from . import tuning

    if given.resume:
        if given != TuneArguments(resume=given.resume):
            raise ConfigurationError(["--resume takes no other options: a search continues with the plan it has"])
        sweep = Path(given.resume)
        tuning.resume(sweep)
    else:
        if not given.study:
            raise ConfigurationError(["tune needs a study or a recipe; `hyperspherical recipes` lists them"])
        plan = tuning.plan_of(given)
        if given.plan:
            return tuning.print_plan(plan)
        sweep = Path(given.sweep) if given.sweep else Path("runs/sweeps") / f"{plan.study}-{tuning.plan_digest(plan)}"
        tuning.start(plan, sweep)
    return tuning.conclude(sweep)


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments:
    """Measure a trained run."""

    run: tyro.conf.Positional[str]
    """Folder of the run."""
    protocols: tuple[str, ...] = ()
    """What is measured: classification, neighbours; by default what the run itself monitors."""
    split: str = "test"
    """Which images: test, or validation, on which most runs were selected."""
    device: str | None = None
    """Another device than the run's: cpu or cuda."""
    root: str | None = None
    """Another folder of the prepared data sets than the run's."""


def evaluate(arguments: list[str]) -> int:
    given = parse(EvaluateArguments, arguments, "evaluate")
    from .judging import PROTOCOLS, evaluate_run

    wrong = [name for name in given.protocols if name not in PROTOCOLS]
    faults = [f"there is no protocol {name!r}, allowed are {', '.join(PROTOCOLS)}" for name in wrong]
    if given.split not in ("test", "validation"):
        faults.append(f"split is {given.split!r}, allowed is test or validation")
    if faults:
        raise ConfigurationError(faults)
    evaluators = [PROTOCOLS[name] for name in given.protocols]
    metrics = evaluate_run(Path(given.run), given.split, evaluators, device=given.device, root=given.root)
    for metric in metrics:
        measured_on = f"{metric.data}, {metric.n} images, seed {metric.seed}"
        print(f"{metric.name:26} {metric.value:8.4f}  {measured_on}: {metric.protocol}")
    return 0


@dataclass(frozen=True, kw_only=True)
class ReportArguments:
    """Write one self-contained HTML page about runs and searches."""

    paths: tyro.conf.Positional[tuple[str, ...]]
    """Folders of runs or searches."""
    output: str | None = None
    """The file; by default report.html in the first folder."""


def report(arguments: list[str]) -> int:
    given = parse(ReportArguments, arguments, "report")
    if not given.paths:
        raise ConfigurationError(["report needs at least one folder of a run or a search"])
    from .report import write_report

    file = write_report([Path(path) for path in given.paths], Path(given.output) if given.output else None)
    print(file.resolve())
    return 0


@dataclass(frozen=True, kw_only=True)
class VerifyArguments:
    """Check .beton files against their manifest: structure, and every byte by checksum."""

    target: tyro.conf.Positional[str]
    """A .beton file, or the name of a prepared data set."""
    root: str = ROOT
    """Folder of the prepared data sets."""


def verify(arguments: list[str]) -> int:
    given = parse(VerifyArguments, arguments, "verify")
    from data_prep.prepared import check_prepared
    from data_prep.prepared import verify as verify_bytes

    path = Path(given.target)
    if path.suffix != ".beton":
        path = Path(given.root) / given.target.replace("-", "_")
        if not path.is_dir():
            check_dataset(given.target, given.root)
        check_prepared(Path(given.root), given.target)
    description = verify_bytes(path)
    for info in description.files:
        print(f"{info.path}: every byte as prepared, {info.samples} images")
    return 0


def percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.2f} %"


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    function.__name__: function for function in (recipes, prepare, train, tune, evaluate, report, verify)
}
ARGUMENTS: dict[str, type[Any]] = {
    "recipes": RecipesArguments, "prepare": PrepareArguments, "train": TrainArguments, "tune": TuneArguments,
    "evaluate": EvaluateArguments, "report": ReportArguments, "verify": VerifyArguments,
}  # fmt: skip


def usage() -> str:
    lines = [f"  {name:10} {(ARGUMENTS[name].__doc__ or '').strip()}" for name in COMMANDS]
    return "\n".join(["usage: hyperspherical COMMAND [options]; COMMAND --help says more", *lines])


def fail(code: int, faults: list[str]) -> int:
    for fault in faults:
        print(f"hyperspherical: {fault}", file=sys.stderr)
    return code
