"""A search: the trials of a plan under Ray Tune with ASHA, in a folder that can be continued.

    plan.json          what is searched
    trials/<trial>/    a run folder each; a trial interrupted in one session continues in the next
    decisions.jsonl    every visit to a rung of ASHA
    timing.json        what the sessions took

The folder is the whole truth: a continued search reads it, fills ASHA's rungs with what it finds, and gives Ray Tune
the trials that are not over. Nothing depends on Ray's own records.
"""

import json
import os
import time
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

from .config import Config, ConfigurationError, from_dict, to_dict
from .files import hold, read_lines, replace_file, write_json
from .plan import Plan, Trial
from .ray_cluster import connect, joined_cluster
from .runs import Record, RunFolder
from .scheduler import Decision, HalvingPerRecipe


def start_search(plan: Plan, sweep: Path) -> None:
    """Runs a plan in a new folder, or continues it where the folder holds the same plan.

    Raises `ConfigurationError` if the folder holds another plan or another process is writing it.
    """
    if (sweep / "config.json").exists():
        raise ConfigurationError([f"{sweep} holds a run: give another folder with --sweep"])
    try:
        sweep.mkdir(parents=True, exist_ok=True)
        if not (sweep / "plan.json").exists():
            plan.write(sweep)
    except OSError as error:
        raise ConfigurationError([f"the folder {sweep} cannot be written: {error.strerror}"]) from None
    if Plan.read(sweep) != plan:
        raise ConfigurationError([f"{sweep} holds a search with another plan: give another folder with --sweep"])
    continue_search(sweep)


def continue_search(sweep: Path) -> None:
    """Runs the trials of the folder's plan that are not over. Returns at once if all are."""
    plan = Plan.read(sweep)
    with hold(sweep, f"another process is running the search in {sweep}: wait for it"):
        search = Search(plan, sweep)
        if search.waiting:
            search.catch_up()
            search.run()


class Search:
    """One session of a search, as its driver sees it."""

    def __init__(self, plan: Plan, sweep: Path) -> None:
        self.plan, self.sweep = plan, sweep
        self.decisions = sweep / "decisions.jsonl"
        self.scheduler = HalvingPerRecipe(plan.rungs, plan.reduction_factor, plan.epochs, self.note_decision)
        for decision in read_lines(self.decisions):
            self.scheduler.replay(decision)
        self.waiting = [
            trial
            for trial in plan.trials
            if trial.trial not in self.scheduler.stopped and self.folder(trial).summary() is None
        ]
        self.over = len(plan.trials) - len(self.waiting)

    def catch_up(self) -> None:
        """Decides about epochs that a session recorded and was killed before it could judge."""
        lines = "".join(json.dumps(decision) + "\n" for decision in read_lines(self.decisions))
        # Without the line that the kill may have cut short.
        replace_file(self.decisions, lambda temporary: temporary.write_text(lines))
        for trial in self.waiting:
            for record in self.folder(trial).records():
                self.scheduler.decide(trial.trial, trial.recipe, record["epoch"], record["accuracy"])
        self.waiting = [trial for trial in self.waiting if trial.trial not in self.scheduler.stopped]
        self.over = len(self.plan.trials) - len(self.waiting)

    def folder(self, trial: Trial) -> RunFolder:
        return RunFolder(self.sweep / "trials" / trial.trial)

    def run(self) -> None:
        """Gives the waiting trials to Ray Tune and returns when all of them are over."""
        # Every trial writes its own metrics.jsonl; Ray's table, CSV and event files would say it all again.
        os.environ |= {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_AIR_NEW_OUTPUT": "0"}
        # An interruption must look like one here, and not like the end of the search.
        os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
        from ray import tune

        from .search_progress import SearchProgress

        connect()
        resources = {"CPU": self.plan.cpus_per_trial, "GPU": self.plan.gpus_per_trial}
        slots = count_slots(resources)
        say(f"{len(self.waiting)} of {len(self.plan.trials)} trials to run, {slots} at a time")
        epochs_before = [(self.folder(trial), len(self.folder(trial).records())) for trial in self.waiting]
        start = time.monotonic()
        tuner = tune.Tuner(
            tune.with_resources(run_trial, resources),
            param_space={"job": tune.grid_search([self.job(trial) for trial in self.waiting])},
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=self.scheduler, reuse_actors=True),
            run_config=tune.RunConfig(
                name=datetime.now().strftime("%Y-%m-%d-%H-%M-%S"),
                storage_path=str((self.sweep / "ray").resolve()),
                verbose=0,
                callbacks=[SearchProgress(self.plan, self.over, self.scheduler)],
            ),
        )
        try:
            tuner.fit()
        finally:
            self.note_session(slots, time.monotonic() - start, epochs_before)

    def job(self, trial: Trial) -> dict[str, Any]:
        """What the process of a trial needs to know."""
        folder = str(self.folder(trial).path.resolve())
        return {**vars(trial), "config": to_dict(self.plan.config(trial)), "folder": folder}

    def note_decision(self, decision: Decision) -> None:
        with open(self.decisions, "a") as file:
            file.write(json.dumps(decision) + "\n")

    def note_session(self, slots: int, seconds: float, epochs_before: list[tuple[RunFolder, int]]) -> None:
        """Adds this session to timing.json: only what was trained in a session counts against its slots."""
        file = self.sweep / "timing.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        names = ("wall_seconds", "slot_seconds", "train_seconds", "measure_seconds")
        total = {name: known.get(name, 0.0) for name in names} | {"slots": slots}
        total["wall_seconds"] += seconds
        total["slot_seconds"] += seconds * slots
        for folder, before in epochs_before:
            for record in folder.records()[before:]:
                total["train_seconds"] += record["train_seconds"]
                total["measure_seconds"] += record["measure_seconds"]
        write_json(file, total)


def run_trial(config: dict[str, Any]) -> None:
    """A trial, in a process that runs one trial after another: the training loop, reporting every epoch to Tune."""
    from ray import tune

    from .training import train

    job = config["job"]
    folder = Path(job["folder"])
    (folder / "error.txt").unlink(missing_ok=True)

    reported = False

    def report(record: Record) -> None:
        nonlocal reported
        reported = True
        diverged = bool(record.get("diverged"))
        tune.report({"epoch": record["epoch"], "accuracy": record["accuracy"], "diverged": diverged})

    try:
        train(from_dict(Config, job["config"]), folder, report)
        if not reported:
            # A session that was killed had trained it to the end, and only its summary was missing.
            report({"epoch": 0, "accuracy": 0.0})
    except Exception:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / "error.txt", lambda temporary: temporary.write_text(traceback.format_exc()))
        raise


def count_slots(resources: dict[str, float]) -> int:
    """How many trials fit at once. Raises `ConfigurationError` if none does and the cluster cannot grow."""
    import ray

    available = ray.cluster_resources()
    slots = int(min(available.get(kind, 0.0) / amount for kind, amount in resources.items() if amount))
    if slots < 1 and joined_cluster():
        return 1
    if slots < 1:
        wanted = ", ".join(f"{amount:g} {kind}" for kind, amount in resources.items() if amount)
        raise ConfigurationError([f"a trial needs {wanted}, more than this cluster has"])
    return slots


def say(message: str) -> None:
    print(f"search: {message}", flush=True)
