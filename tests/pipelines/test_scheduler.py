"""Successive halving: the rule of Ray's own ASHA, one bracket per recipe, rungs that can be filled again."""

import random
from types import SimpleNamespace

from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from pipelines.scheduler import HalvingPerRecipe


def make(decisions: list) -> HalvingPerRecipe:
    return HalvingPerRecipe([1, 2, 4], 2, 4, decisions.append)


def report(scheduler: HalvingPerRecipe, trial: str, recipe: str, epoch: int, accuracy: float) -> str:
    job = SimpleNamespace(config={"job": {"trial": trial, "recipe": recipe}})
    return scheduler.on_trial_result(None, job, {"epoch": epoch, "accuracy": accuracy})


def test_same_decisions_as_rays_asha() -> None:
    draw = random.Random(0)
    ours = make([])
    theirs = ASHAScheduler(
        time_attr="epoch", metric="accuracy", mode="max", grace_period=1, max_t=4, reduction_factor=2
    )
    running = {str(number): 0 for number in range(40)}
    for name in running:
        theirs.on_trial_add(None, SimpleNamespace(trial_id=name))
    compared = 0
    while running:
        name = draw.choice(sorted(running))
        running[name] += 1
        epoch, accuracy = running[name], draw.random()
        decision = report(ours, name, "a", epoch, accuracy)
        expected = theirs.on_trial_result(None, SimpleNamespace(trial_id=name), {"epoch": epoch, "accuracy": accuracy})
        if epoch == 4:
            # Ray stops a trial that has reached the last epoch; ours ends by itself.
            del running[name]
            continue
        assert decision == expected
        compared += 1
        if decision == TrialScheduler.STOP:
            del running[name]
    assert compared >= 40


def test_recipes_do_not_compete() -> None:
    scheduler = make([])
    assert report(scheduler, "a0", "a", 1, 0.9) == TrialScheduler.CONTINUE
    assert report(scheduler, "b0", "b", 1, 0.1) == TrialScheduler.CONTINUE
    assert report(scheduler, "b1", "b", 1, 0.05) == TrialScheduler.STOP
    assert report(scheduler, "a1", "a", 1, 0.5) == TrialScheduler.STOP


def test_decisions_are_told_with_their_cutoff() -> None:
    decisions: list = []
    scheduler = make(decisions)
    report(scheduler, "first", "a", 1, 0.8)
    report(scheduler, "second", "a", 1, 0.6)
    report(scheduler, "first", "a", 3, 0.1)
    assert decisions == [
        {"trial": "first", "recipe": "a", "epoch": 1, "accuracy": 0.8, "cutoff": None, "stopped": False},
        {"trial": "second", "recipe": "a", "epoch": 1, "accuracy": 0.6, "cutoff": 0.8, "stopped": True},
    ]


def test_replayed_rungs_decide_as_if_the_search_had_never_stopped() -> None:
    decisions: list = []
    whole, continued = make(decisions), make([])
    for trial, accuracy in (("t0", 0.5), ("t1", 0.7), ("t2", 0.55)):
        report(whole, trial, "a", 1, accuracy)
    for decision in decisions:
        continued.replay(decision)
    assert continued.stopped == whole.stopped == {"t2"}
    for accuracy in (0.6, 0.69):
        assert report(whole, f"x{accuracy}", "a", 1, accuracy) == report(continued, f"x{accuracy}", "a", 1, accuracy)


def test_a_diverged_trial_enters_no_rung() -> None:
    scheduler = make([])
    job = SimpleNamespace(config={"job": {"trial": "t", "recipe": "a"}})
    scheduler.on_trial_result(None, job, {"epoch": 1, "accuracy": 0.0, "diverged": True})
    assert scheduler.visits == {}
