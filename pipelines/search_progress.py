"""A line in the terminal for every trial of a search that is over."""

import time
from pathlib import Path
from typing import Any

from ray.tune import Callback

from .plan import Plan
from .scheduler import HalvingPerRecipe


class SearchProgress(Callback):
    """Prints how far the search is, what a trial reached, and how it ended."""

    def __init__(self, plan: Plan, over: int, scheduler: HalvingPerRecipe) -> None:
        self.plan, self.over, self.scheduler = plan, over, scheduler
        self.start = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        result = trial.last_result or {}
        epoch, accuracy = result.get("epoch", 0), result.get("accuracy", 0.0)
        if result.get("diverged"):
            outcome = f"diverged in epoch {epoch}"
        elif epoch == 0:
            outcome = "was over already"
        else:
            fate = "stopped by ASHA" if trial.config["job"]["trial"] in self.scheduler.stopped else "complete"
            outcome = f"{100 * accuracy:6.2f} % after {epoch} epochs, {fate}"
        self._print(trial, outcome)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        error = Path(trial.config["job"]["folder"]) / "error.txt"
        self._print(trial, f"failed: see {error}" if error.exists() else "failed: its process died")

    def _print(self, trial: Any, outcome: str) -> None:
        self.over += 1
        total = len(self.plan.trials)
        minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
        changes = " ".join(f"{name.split('.')[-1]}={value}" for name, value in trial.config["job"]["changes"].items())
        name = trial.config["job"]["trial"]
        print(
            f"[{self.over:{len(str(total))}}/{total} {minutes:2d}:{seconds:02d}] {name}  {outcome}  ({changes})",
            flush=True,
        )
