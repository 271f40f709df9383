"""Recipes hold what the papers' tables say, and every one of them builds."""

import pytest
import torch

from pipelines.config import change, get
from pipelines.plan import make_plan, rungs, shorten
from pipelines.recipes import RECIPES, STUDIES, recipe, study
from pipelines.recipes.vmf_study import COLUMNS

SHAPES = {"mnist": (1, 28, 28), "fashion_mnist": (1, 28, 28), "cifar10": (3, 32, 32)}

# The supplement's Tables 5 and 6, copied row by row: LR, TLR, MOM, NMOM, WD, m, m=0 epochs, c, lambda, tau.
PUBLISHED = {
    "vmf/mnist-standard": (0.1, None, 0.9, False, 0.0, None, None, None, None, None),
    "vmf/mnist-hyperbolic": (0.05, None, 0.99, True, 0.0, None, None, 1e-5, None, None),
    "vmf/mnist-cosine": (0.5, 0.001, 0.9, True, 0.0, None, None, None, None, 0.0),
    "vmf/mnist-arcface": (0.05, 0.001, 0.9, False, 0.0, 0.5, 20, None, None, 0.0),
    "vmf/mnist-vmf": (1.0, 0.001, 0.99, True, 0.0, None, None, None, 0.4, 0.0),
    "vmf/fashion-mnist-standard": (0.01, None, 0.99, False, 0.0, None, None, None, None, None),
    "vmf/fashion-mnist-hyperbolic": (0.1, None, 0.9, True, 0.0, None, None, 1e-5, None, None),
    "vmf/fashion-mnist-cosine": (0.5, 0.001, 0.9, True, 0.0, None, None, None, None, 0.0),
    "vmf/fashion-mnist-arcface": (0.01, 0.001, 0.99, True, 0.0, 0.5, 20, None, None, 0.0),
    "vmf/fashion-mnist-vmf": (0.05, 0.001, 0.99, False, 0.0, None, None, None, 0.4, 0.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_rows_of_tables_5_and_6(name: str) -> None:
    config = recipe(name)
    assert tuple(get(config, field) for field in COLUMNS.values()) == PUBLISHED[name]
    assert (config.epochs, config.early_stop_epochs, config.schedule.factor, config.schedule.patience) == (
        1000,
        35,
        0.5,
        15,
    )
    assert (config.data.order.classes, config.data.order.images_per_class, config.data.order.per_epoch) == (10, 13, 250)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_on_the_meta_device(name: str) -> None:
    config = recipe(name)
    with torch.device("meta"):
        method = config.method.build(config.backbone, 10, SHAPES[config.data.name])
    assert all(parameter.is_meta for parameter in method.parameters())


@pytest.mark.parametrize("name", STUDIES)
def test_the_grid_of_a_study_holds_every_published_row(name: str) -> None:
    for member in study(name).recipes:
        published = {field: get(recipe(member), field) for field in study(name).grid}
        assert published in study(name).points()


def test_trials_are_interleaved_and_named_apart() -> None:
    plan = make_plan(
        "vmf/fashion-mnist", study("vmf/fashion-mnist"), epochs=4, reduction_factor=2, grace_epochs=1,
        validation_images=9000, cpus_per_trial=1, gpus_per_trial=0, common={},
    )  # fmt: skip
    assert [trial.recipe for trial in plan.trials[:5]] == plan.recipes
    assert len({trial.trial for trial in plan.trials}) == len(plan.trials) == 100
    assert plan.rungs == [1, 2, 4]
    assert any("margin_free_epochs is 1 here and 20 in the paper" in note for note in plan.notes)
    assert plan.config(plan.trials[7]).optimizer.momentum == 0.9


@pytest.mark.parametrize(
    ("grace", "epochs", "factor", "expected"), [(1, 4, 2, [1, 2, 4]), (2, 50, 3, [2, 6, 18]), (5, 5, 2, [5])]
)
def test_rungs(grace: int, epochs: int, factor: int, expected: list[int]) -> None:
    assert rungs(grace, epochs, factor) == expected


def test_shortening_keeps_the_share_of_ramps_and_says_so() -> None:
    short, notes = shorten(recipe("amc/mnist-amc"), 30)
    assert (short.schedule.ramp_up_epochs, short.schedule.ramp_down_epochs, short.method.ramp_up_epochs) == (8, 5, 8)
    assert len(notes) == 3
    kept, notes = shorten(recipe("amc/mnist-amc"), 30, frozenset({"schedule.ramp_up_epochs"}))
    assert kept.schedule.ramp_up_epochs == 80
    assert len(notes) == 2


def test_a_full_length_run_is_not_changed() -> None:
    config = recipe("vmf/fashion-mnist-arcface")
    assert shorten(config, config.epochs) == (config, [])
    assert change(config, {}) == config
