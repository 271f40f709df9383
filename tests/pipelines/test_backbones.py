"""Networks: the papers' shapes and sizes, and the batch norm over parts of a batch."""

import pytest
import torch
from torch import nn

from pipelines.backbones import SplitBatchNorm2d, amc_cnn, digits_cnn, resnet


def test_split_batch_norm_normalises_every_nth_sample_together() -> None:
    torch.manual_seed(0)
    images = torch.randn(12, 3, 4, 4, dtype=torch.float64) * torch.rand(12, 1, 1, 1, dtype=torch.float64)
    split = SplitBatchNorm2d(3, splits=4).double()
    parts = [nn.BatchNorm2d(3).double() for _ in range(4)]
    output = split(images)
    for part, norm in enumerate(parts):
        torch.testing.assert_close(output[part::4], norm(images[part::4]))
    for name in ("running_mean", "running_var"):
        expected = torch.stack([getattr(norm, name) for norm in parts]).mean(0)
        torch.testing.assert_close(getattr(split, name), expected)
    plain = nn.BatchNorm2d(3).double()
    plain.load_state_dict(split.state_dict())
    torch.testing.assert_close(split.eval()(images), plain.eval()(images))


def test_views_of_an_image_fall_into_different_parts() -> None:
    views, splits = 4, 8
    part_of = torch.arange(16 * views).view(16, views) % splits
    assert all(len(set(parts.tolist())) == views for parts in part_of)


def test_split_batch_norm_refuses_a_batch_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="divides by 8, this one has 12"):
        SplitBatchNorm2d(3, splits=8)(torch.randn(12, 3, 4, 4))


def test_digits_cnn_has_the_layers_of_the_supplement() -> None:
    shapes = [tuple(weight.shape) for weight in digits_cnn((1, 28, 28), 3).parameters() if weight.dim() > 1]
    assert shapes == [(6, 1, 5, 5), (16, 6, 5, 5), (120, 784), (3, 120)]


def test_amc_cnn_averages_five_by_five_maps() -> None:
    encoder = amc_cnn((1, 28, 28), (64, 64, 128, 64), 0.15, 0.5).eval()
    maps = encoder.trunk[:-2](torch.zeros(1, 1, 28, 28))
    assert maps.shape == (1, 64, 5, 5)


def test_resnet_18_is_torchvisions_but_for_stem_and_head() -> None:
    from torchvision.models import resnet18

    ours = {
        name: value.shape for name, value in resnet((3, 32, 32), depth=18, embedding_size=128).trunk.named_parameters()
    }
    theirs = {name: value.shape for name, value in resnet18().named_parameters() if not name.startswith("fc")}
    assert {name for name in theirs if ours[name] != theirs[name]} == {"conv1.weight"}
