"""What the `tune` command does around a search: the plan before it, the judgement of the best trials after it."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from . import analysis
from .command_line import Failure
from .config import ConfigurationError, change, digest, nearest
from .config.constraints import faults
from .data_checks import check_data
from .plan import DECIDED_BY_SEARCH, Plan, make_plan
from .ray_cluster import joined_cluster
from .recipes import RECIPES, STUDIES, Study, recipe
from .search import Search, continue_search, start_search


def plan_of(arguments: Any) -> Plan:
    """The plan that the arguments of `tune` describe. Raises `ConfigurationError` with every fault."""
    from data_prep.prepared import open_split

    name = arguments.study.replace("_", "-")
    study = study_of(name, arguments.grid)
    found = faults(arguments)
    if arguments.epochs is not None and arguments.grace_epochs > arguments.epochs:
        found.append(f"grace_epochs is {arguments.grace_epochs}, allowed is at most epochs = {arguments.epochs}")
    if found:
        raise ConfigurationError(found)
    common = read_changes(arguments.set) | {
        "root": str(Path(arguments.root).resolve()),
        "device": "auto" if arguments.gpus_per_trial else "cpu",
    }
    if arguments.seed is not None:
        common["seed"] = arguments.seed
    data = change(recipe(study.recipes[0]), common).data
    check_data(data, common["root"])
    if not joined_cluster() and arguments.cpus_per_trial > (os.cpu_count() or 1):
        allowed = f"at most {os.cpu_count()}, the CPUs of this machine"
        raise ConfigurationError([f"cpus_per_trial is {arguments.cpus_per_trial:g}, allowed is {allowed}"])
    plan = make_plan(
        name,
        study,
        epochs=arguments.epochs,
        reduction_factor=arguments.reduction_factor,
        grace_epochs=arguments.grace_epochs,
        validation_images=0,
        cpus_per_trial=arguments.cpus_per_trial,
        gpus_per_trial=arguments.gpus_per_trial,
        common=common,
    )
    if arguments.plan:
        return plan
    config = plan.config(plan.trials[0])
    split = open_split(Path(config.root), config.data.name, config.data.validation_split)
    return dataclasses.replace(plan, validation_images=split.samples)


def study_of(name: str, grid: tuple[str, ...]) -> Study:
    """The study of that name, or a recipe as a study of its own, with the study's grid or the given one."""
    if name in STUDIES:
        study = STUDIES[name]
    elif name in RECIPES:
        home = next((study for study in STUDIES.values() if name in study.recipes), None)
        if home is None and not grid:
            raise ConfigurationError([f"{name} belongs to no study, so tune needs --grid FIELD=VALUE,VALUE ..."])
        columns = home.columns if home else {field.split("=")[0].split(".")[-1]: field.split("=")[0] for field in grid}
        study = Study(title=f"Grid search of {name}", recipes=(name,), grid=home.grid if home else {}, columns=columns)
    else:
        known = [*STUDIES, *RECIPES]
        close = nearest(name, known) or "; `hyperspherical recipes` lists all"
        raise ConfigurationError([f"there is no study or recipe {name!r}{close}"])
    if not grid:
        return study
    return Study(title=study.title, recipes=study.recipes, grid=read_grid(grid), columns=study.columns)


def read_grid(grid: tuple[str, ...]) -> dict[str, list[Any]]:
    """FIELD=VALUE,VALUE ... as a dictionary; values are read as numbers, True, False or None where they are such."""
    found: dict[str, list[Any]] = {}
    wrong = []
    for axis in grid:
        field, equals, values = axis.partition("=")
        if not equals or not values:
            wrong.append(f"grid axis {axis!r} has no values, allowed is FIELD=VALUE,VALUE")
        found[field.replace("-", "_")] = [read_value(value) for value in values.split(",")]
    if wrong:
        raise ConfigurationError(wrong)
    return found


def read_changes(changes: tuple[str, ...]) -> dict[str, Any]:
    """FIELD=VALUE ... as a dictionary. Raises `ConfigurationError` for several values, and for fields with options."""
    grid = read_grid(changes)
    wrong = [
        f"--set {field} has {len(values)} values, allowed is 1" for field, values in grid.items() if len(values) > 1
    ]
    wrong += [f"--set cannot change {field}: the search decides it" for field in grid if field in DECIDED_BY_SEARCH]
    wrong += ["--set cannot change seed: use --seed"] if "seed" in grid else []
    if wrong:
        raise ConfigurationError(wrong)
    return {field: values[0] for field, values in grid.items()}


def read_value(text: str) -> Any:
    words = {"True": True, "true": True, "False": False, "false": False, "None": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def plan_digest(plan: Plan) -> str:
    return digest(plan.to_json())


def print_plan(plan: Plan) -> int:
    """The trials of a plan, and what they may cost at most."""
    for trial in plan.trials:
        print(f"{trial.trial:32} {'  '.join(f'{field}={value}' for field, value in trial.changes.items())}")
    print(f"{len(plan.trials)} trials of up to {plan.epochs} epochs, compared at epochs {plan.rungs}")
    for note in plan.notes:
        print(f"note: {note}")
    return 0


def start(plan: Plan, sweep: Path) -> None:
    print(f"search: {plan.title}; {len(plan.trials)} trials in {sweep}", flush=True)
    start_search(plan, sweep)


def resume(sweep: Path) -> None:
    continue_search(sweep)


def conclude(sweep: Path) -> int:
    """After the search: the table of trials, the best of each recipe on the test set, and the paper's form of it."""
    from .judging import evaluate_run

    analysis.write_trials(sweep)
    for member, trial in analysis.best_trials(analysis.trials_frame(sweep)).items():
        folder = sweep / "trials" / trial
        if not (folder / "evaluations.json").exists():
            print(f"search: measuring the best trial of {member} on the test set: {trial}", flush=True)
            evaluate_run(folder, "test")
    analysis.write_best(sweep)
    print(analysis.best_table(sweep).text())
    share = 100 * analysis.search_efficiency(sweep)
    print(f"search: {share:.0f} % of the slots' time was training and measuring")
    print(f"search: {sweep / 'best.json'}, {sweep / 'trials.parquet'}")
    if waiting := Search(Plan.read(sweep), sweep).waiting:
        raise Failure(
            f"{len(waiting)} trials failed or were interrupted (error.txt in their folders says why); "
            f"hyperspherical tune --resume {sweep} goes on with them"
        )
    return 0
