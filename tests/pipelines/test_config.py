"""Configurations: JSON and back, dotted changes, and faults that are told all at once."""

import dataclasses
import json

import pytest

from pipelines.config import Config, ConfigurationError, change, from_dict, identity, load, to_dict, validate
from pipelines.config.constraints import Range, faults
from pipelines.recipes import RECIPES, recipe


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_valid_and_survives_json(name: str) -> None:
    config = RECIPES[name]
    assert config.recipe == name
    assert faults(config) == []
    assert from_dict(Config, json.loads(json.dumps(to_dict(config)))) == config


def test_identity_depends_on_the_experiment_and_not_on_where_the_data_lie() -> None:
    config = recipe("vmf/mnist-vmf")
    assert identity(config) == identity(dataclasses.replace(config, root="/elsewhere"))
    assert identity(config) != identity(dataclasses.replace(config, seed=1))


def test_change_reaches_nested_fields() -> None:
    changed = change(recipe("vmf/mnist-arcface"), {"method.objective.margin": 0.3, "optimizer.learning_rate": 1})
    assert changed.method.objective.margin == 0.3
    assert changed.optimizer.learning_rate == 1.0


def test_a_field_of_another_objective_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"method\.objective\.marign is not a field .* nearest: .*margin"):
        change(recipe("vmf/mnist-arcface"), {"method.objective.marign": 0.3})
    with pytest.raises(ConfigurationError, match="is not a field"):
        change(recipe("vmf/mnist-standard"), {"method.objective.margin": 0.3})


def test_all_faults_are_reported_at_once() -> None:
    wrong = change(
        recipe("vmf/mnist-arcface"),
        {"method.objective.margin": 4, "optimizer.learning_rate": -1, "epochs": 0, "optimizer.momentum": 1.0},
    )
    with pytest.raises(ConfigurationError) as error:
        validate(wrong)
    assert error.value.faults == [
        "method.objective.margin is 4.0, allowed is a number in [0, 3.14159]",
        "optimizer.learning_rate is -1.0, allowed is a number above 0",
        "optimizer.momentum is 1.0, allowed is a number in [0, 1)",
        "epochs is 0, allowed is a number of at least 1",
    ]


def test_mistyped_unknown_and_missing_fields_of_a_file_are_reported_at_once(tmp_path) -> None:
    values = to_dict(recipe("vmf/mnist-vmf"))
    values["epochs"] = "many"
    values["optimiser"] = values.pop("optimizer")
    values["method"]["objective"]["type"] = "VMF"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(ConfigurationError) as error:
        load(path)
    assert len(error.value.faults) == 4
    assert "optimiser is not a field of Config; nearest: optimizer" in error.value.faults
    assert "optimizer is missing" in error.value.faults


def test_unreadable_file_is_named(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"config\.json cannot be read"):
        load(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (Range(0, 1), [0, 0.5, 1], [-0.1, 1.1, float("nan")]),
        (Range(0, 1, open_low=True, open_high=True), [0.5], [0, 1]),
        (Range(2), [2, 1e9], [1.9]),
    ],
)
def test_range(allowed: Range, inside: list[float], outside: list[float]) -> None:
    assert all(allowed.contains(value) for value in inside)
    assert not any(allowed.contains(value) for value in outside)


def test_every_field_of_every_objective_is_documented() -> None:
    from pipelines.config import ArcFace, Cosine, Hyperbolic, Standard, VonMisesFisher

    for objective in (Standard, Cosine, ArcFace, Hyperbolic, VonMisesFisher):
        assert objective.__doc__ and not objective.__doc__.startswith(objective.__name__ + "(")


def test_unknown_names_give_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="nearest: vmf/fashion-mnist-vmf"):
        recipe("vmf/fashion-mnist-vfm")


def test_underscores_are_accepted_wherever_hyphens_are() -> None:
    assert recipe("vmf/fashion_mnist_vmf") is RECIPES["vmf/fashion-mnist-vmf"]
