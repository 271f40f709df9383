"""A line in the terminal for every trial of a search that is over."""

import time
from typing import Any

from ray.tune import Callback

from .plan import Plan


class SearchProgress(Callback):
    """Prints how far the search is, what a trial reached, and how it ended."""

    def __init__(self, plan: Plan, over: int) -> None:
        self.plan, self.over = plan, over
        self.start = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        result = trial.last_result or {}
        epoch, accuracy = result.get("epoch", 0), result.get("accuracy", 0.0)
        if epoch == 0:
            fate = "was over already"
        elif epoch < self.plan.epochs:
            fate = "stopped by ASHA" if accuracy > 0 else "diverged"
        else:
            fate = "complete"
        self._print(trial, f"{100 * accuracy:6.2f} % after {epoch} of {self.plan.epochs} epochs, {fate}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._print(trial, f"failed: see {trial.config['job']['folder']}/error.txt")

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
