"""Asynchronous successive halving (ASHA), with one bracket per recipe: objectives never compete with each other."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

Decision = dict[str, Any]
"""A visit to a rung: trial, recipe, epoch, accuracy, the cutoff it was compared with, and whether it was stopped."""


class HalvingPerRecipe(FIFOScheduler):
    """Stops a trial at a rung if it is below the best 1 / reduction_factor of the recipe's earlier visitors there.

    The rule is that of Ray's own ASHA scheduler. It is stated here because Ray's has one bracket for all trials and
    forgets its rungs when a search is restored, while these are filled again with `replay`.

    Args:
        rungs: epochs at which trials are compared.
        reduction_factor: one in so many trials passes a rung.
        last_epoch: where a trial ends by itself, so that nothing is left to stop.
        on_decision: told of every visit to a rung.
    """

    def __init__(
        self, rungs: list[int], reduction_factor: int, last_epoch: int, on_decision: Callable[[Decision], None]
    ) -> None:
        super().__init__()
        self.rungs = rungs
        self.reduction_factor = reduction_factor
        self.last_epoch = last_epoch
        self.on_decision = on_decision
        self.visits: dict[tuple[str, int], dict[str, float]] = {}
        self.stopped: set[str] = set()

    def replay(self, decision: Decision) -> None:
        """Enters a decision of an earlier session."""
        self.visits.setdefault((decision["recipe"], decision["epoch"]), {})[decision["trial"]] = decision["accuracy"]
        if decision["stopped"]:
            self.stopped.add(decision["trial"])

    def decide(self, trial: str, recipe: str, epoch: int, accuracy: float) -> bool:
        """Whether a trial that has just reached `accuracy` must stop."""
        visits = self.visits.setdefault((recipe, epoch), {})
        if epoch not in self.rungs or trial in visits:
            return trial in self.stopped
        share = 100 * (1 - 1 / self.reduction_factor)
        cutoff = float(np.percentile(list(visits.values()), share)) if visits else None
        visits[trial] = accuracy
        stopped = cutoff is not None and accuracy < cutoff and epoch < self.last_epoch
        if stopped:
            self.stopped.add(trial)
        decision = {"trial": trial, "recipe": recipe, "epoch": epoch, "accuracy": accuracy}
        self.on_decision(decision | {"cutoff": cutoff, "stopped": stopped})
        return stopped

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        job = trial.config["job"]
        if result.get("diverged"):
            # It ends by itself, and an accuracy of 0 would lower the cutoff for all that follow.
            return TrialScheduler.CONTINUE
        stops = self.decide(job["trial"], job["recipe"], result["epoch"], result["accuracy"])
        return TrialScheduler.STOP if stops else TrialScheduler.CONTINUE
