"""Every distinct (backbone, method, objective) of the recipes takes two steps on the smallest images it accepts."""

import dataclasses
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from hyperspherical.methods import Progress
from pipelines.config import AmcCnn, Config, MoCo, PairContrastive, ResNet, Supervised
from pipelines.optimization import build_optimizer, build_schedule, parameter_groups
from pipelines.recipes import RECIPES, recipe


class RandomBatch(NamedTuple):
    images_BVCHW: Tensor
    labels_B: Tensor


def parts(config: Config) -> tuple[str, ...]:
    inner = next(
        (
            getattr(config.method, name)
            for name in ("objective", "contrast", "similarity")
            if hasattr(config.method, name)
        ),
        None,
    )
    return type(config.backbone).__name__, type(config.method).__name__, type(inner).__name__


DISTINCT = {parts(config): name for name, config in RECIPES.items()}
SMALLEST = {"DigitsCnn": (1, 4, 4), "AmcCnn": (1, 12, 12), "ResNet": (3, 8, 8)}


def narrow(config: Config) -> Config:
    if isinstance(config.backbone, ResNet):
        return dataclasses.replace(config, backbone=dataclasses.replace(config.backbone, width=8, embedding_size=16))
    if isinstance(config.backbone, AmcCnn):
        return dataclasses.replace(config, backbone=dataclasses.replace(config.backbone, widths=(4, 4, 8, 4)))
    return config


def make_batch(config: Config, images: int = 16) -> RandomBatch:
    views = sum(count for _, count in config.data.train_views)
    shape = SMALLEST[type(config.backbone).__name__]
    return RandomBatch(torch.rand(images, views, *shape), torch.arange(images) % 5)


@pytest.mark.parametrize("name", DISTINCT.values(), ids="-".join)
def test_two_steps_change_every_trained_parameter(name: str) -> None:
    torch.manual_seed(0)
    config = narrow(recipe(name))
    batch = make_batch(config)
    method = config.method.build(config.backbone, 5, tuple(batch.images_BVCHW.shape[2:]))
    method.initialise_from_data([batch])
    optimizer = build_optimizer(method, config.optimizer)
    schedule = build_schedule(optimizer, config.schedule, config.epochs)
    before = {key: value.clone() for key, value in method.named_parameters() if value.requires_grad}
    for step in range(2):
        # Epoch 81 is past every ramp-up and margin-free epoch.
        progress = Progress(epoch=81, step=step, epochs=config.epochs, steps_per_epoch=2)
        schedule.start_epoch(progress.epoch)
        output = method(batch, progress, torch.Generator().manual_seed(step))
        assert output.loss.dim() == 0
        assert torch.isfinite(output.loss)
        output.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(progress)
    unused = {"encoder.head", "network.encoder.head"}
    still = [
        key
        for key, value in method.named_parameters()
        if value.requires_grad and torch.equal(value, before[key]) and not any(key.startswith(part) for part in unused)
    ]
    # A bias before a batch norm has no influence; its gradient is rounding noise.
    assert [key for key in still if not key.endswith("bias")] == []


@pytest.mark.parametrize("name", DISTINCT.values(), ids="-".join)
def test_encode_and_predict(name: str) -> None:
    config = narrow(recipe(name))
    batch = make_batch(config)
    method = config.method.build(config.backbone, 5, tuple(batch.images_BVCHW.shape[2:])).eval()
    images = batch.images_BVCHW[:, 0]
    features = method.encode(images)
    assert features.embedding_BD.shape[0] == features.backbone_BD.shape[0] == 16
    if isinstance(config.method, MoCo):
        with pytest.raises(TypeError, match="no classifier"):
            method.predict(images)
        return
    first = method.predict(images, torch.Generator().manual_seed(0))
    again = method.predict(images, torch.Generator().manual_seed(0))
    torch.testing.assert_close(first.sum(1), torch.ones(16), atol=1e-4, rtol=0)
    assert torch.equal(first, again)


def test_vmf_scale_is_estimated_without_touching_running_statistics() -> None:
    config = recipe("vmf/mnist-vmf")
    batch = make_batch(config, images=64)
    torch.manual_seed(0)
    method = config.method.build(config.backbone, 5, (1, 4, 4))
    before = {key: value.clone() for key, value in method.encoder.state_dict().items()}
    method.initialise_from_data([batch, batch])
    after = method.encoder.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    method.train()
    with torch.no_grad():
        embeddings = method.encoder(batch.images_BVCHW[:, 0]).embedding_BD
    # Eq. 16: alpha = kappa_0 / (sqrt(n) E|z_i|), kappa_0 = lambda (n - 1) / (1 - lambda^2).
    expected = 0.4 / (1 - 0.16) * 2 / (3**0.5 * embeddings.abs().mean())
    torch.testing.assert_close(method.objective.embedding_scale, expected, rtol=1e-5, atol=0)


def test_arcface_margin_starts_after_the_margin_free_epochs() -> None:
    config = recipe("vmf/mnist-arcface")
    batch = make_batch(config)
    method = config.method.build(config.backbone, 5, (1, 4, 4)).eval()
    losses = [method(batch, Progress(epoch, 0, 100, 1)).loss.item() for epoch in (0, 19, 20)]
    assert losses[0] == losses[1] < losses[2]


def test_pair_term_is_absent_in_the_first_epoch_and_ramps_up() -> None:
    config = narrow(recipe("amc/mnist-amc"))
    batch = make_batch(config)
    method = config.method.build(config.backbone, 5, (1, 12, 12)).eval()
    terms = []
    for epoch in (0, 40, 80):
        output = method(batch, Progress(epoch, 0, 300, 1))
        terms.append(((output.loss - output.logs["cross_entropy"]) / output.logs["contrast"]).item())
    assert terms == pytest.approx([0.0, 0.1 * 2.718281828 ** (-5 / 4), 0.1], abs=1e-5)


def test_moco_queue_takes_one_key_per_image_and_wraps_around() -> None:
    config = narrow(recipe("dsf/cifar10-moco-dsf"))
    config = dataclasses.replace(config, method=dataclasses.replace(config.method, queue_size=24))
    batch = make_batch(config)
    method = config.method.build(config.backbone, 5, (3, 8, 8))
    start = method.queue_KD.clone()
    method(batch, Progress(0, 0, 1, 1), torch.Generator().manual_seed(0))
    assert method.queue_position == 16
    assert torch.equal(method.queue_KD[16:], start[16:])
    assert not torch.equal(method.queue_KD[:16], start[:16])
    torch.testing.assert_close(method.queue_KD.norm(dim=1), torch.ones(24))
    method(batch, Progress(0, 1, 1, 1), torch.Generator().manual_seed(1))
    assert method.queue_position == 8


def test_parameter_groups_of_the_supervised_study() -> None:
    config = recipe("vmf/mnist-cosine")
    method = config.method.build(config.backbone, 5, (1, 28, 28))
    decayed, plain, temperature = parameter_groups(method, 5e-4, 0.001, decay_class_matrix=True)
    assert all(parameter.dim() > 1 for parameter in decayed["params"])
    assert any(parameter is method.objective.class_matrix for parameter in decayed["params"])
    assert all(parameter.dim() == 1 for parameter in plain["params"])
    assert [parameter.dim() for parameter in temperature["params"]] == [0]
    assert (temperature["lr"], temperature["momentum"], temperature["weight_decay"]) == (0.001, 0.0, 0.0)
    _, plain, _ = parameter_groups(method, 5e-4, 0.001, decay_class_matrix=False)
    assert any(parameter is method.objective.class_matrix for parameter in plain["params"])


def test_hyperbolic_parameters_are_never_decayed() -> None:
    config = recipe("vmf/mnist-hyperbolic")
    method = config.method.build(config.backbone, 5, (1, 28, 28))
    decayed, plain = parameter_groups(method, 5e-4, None, decay_class_matrix=True)
    assert {"objective.normals", "objective.offsets"} == method.undecayed_parameters()
    assert sum(parameter.dim() > 1 for parameter in plain["params"]) == 2
    assert not any(parameter is method.objective.normals for parameter in decayed["params"])


@pytest.mark.parametrize("method", [Supervised, PairContrastive, MoCo])
def test_all_three_families_are_covered(method: type) -> None:
    assert method.__name__ in {names[1] for names in DISTINCT}
