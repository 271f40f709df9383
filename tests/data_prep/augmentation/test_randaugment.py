"""RandAugment's operations against torchvision's for one image, exactly, and the distribution of what is drawn."""

import inspect
import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import RandAugment as Torchvisions
from torchvision.transforms import functional as F

from data_prep.augmentation.randaugment import OPERATIONS, RandAugment, operate
from data_prep.randomness import uniforms

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 17, 24), (3, 2, 9), (3, 64, 64)]
NAMES = dict(
    zip(
        OPERATIONS,
        [
            "Identity",
            "ShearX",
            "ShearY",
            "TranslateX",
            "TranslateY",
            "Rotate",
            "Brightness",
            "Color",
            "Contrast",
            "Sharpness",
            "Posterize",
            "Solarize",
            "AutoContrast",
            "Equalize",
        ],
        strict=True,
    )
)


def images(channels: int, height: int, width: int) -> Tensor:
    rng = np.random.default_rng(0)
    low, high = np.sort(rng.integers(0, 256, (2, 24, channels, 1, 1)), axis=0)
    found = rng.integers(low, high + 1, (24, channels, height, width), np.int64).astype(np.uint8)
    found[0] = 77
    found[1] = rng.integers(0, 2, found[1].shape) * 255
    return torch.from_numpy(found)


def one_image(image: Tensor, name: str, sign: int) -> Tensor:
    """torchvision's operation with torchvision's magnitude 9."""
    height, width = image.shape[-2:]
    magnitudes, signed = Torchvisions()._augmentation_space(31, (height, width))[NAMES[name]]
    size = float(magnitudes[9]) if magnitudes.ndim else 0.0
    size *= sign if signed else 1
    shear = [math.degrees(math.atan(size)) * (name == axis) for axis in ("shear_x", "shear_y")]
    move = [int(size) * (name == axis) for axis in ("translate_x", "translate_y")]
    if name.startswith(("shear", "translate")):
        return F.affine(image, 0.0, move, 1.0, shear, center=[0, 0] if name.startswith("shear") else None)
    if name == "rotate":
        return F.rotate(image, size, interpolation=InterpolationMode.NEAREST)
    simple = {"posterize": (F.posterize, int(size)), "solarize": (F.solarize, size)}
    blends = {"brightness": F.adjust_brightness, "colour": F.adjust_saturation}
    blends |= {"contrast": F.adjust_contrast, "sharpness": F.adjust_sharpness}
    if name in blends:
        return blends[name](image, 1.0 + size)
    if name in simple:
        return simple[name][0](image, simple[name][1])
    return {"identity": lambda same: same, "autocontrast": F.autocontrast, "equalize": F.equalize}[name](image)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_equals_torchvisions_exactly(name: str, shape: tuple[int, int, int]) -> None:
    given = images(*shape)
    signs = torch.arange(len(given)) % 2
    found = operate(given, OPERATIONS.index(name), signs)
    for image, sign, result in zip(given, signs.tolist(), found, strict=True):
        assert torch.equal(result, one_image(image, name, -1 if sign else 1))


def test_the_defaults_are_torchvisions() -> None:
    defaults = {key: value.default for key, value in inspect.signature(Torchvisions).parameters.items()}
    assert defaults == {
        "num_ops": 2,
        "magnitude": 9,
        "num_magnitude_bins": 31,
        "interpolation": InterpolationMode.NEAREST,
        "fill": None,
    }
    assert list(Torchvisions()._augmentation_space(31, (32, 32))) == list(NAMES.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_two_operations_one_after_the_other_on_some_images(shape: tuple[int, int, int]) -> None:
    given = images(*shape).float() / 255
    stage = RandAugment(probability=0.5)
    applied, numbers, negative = stage.parameters(uniforms(0, 0, np.arange(24), 0, stage.draws), *shape[1:])
    before = given.clone()
    found = stage.apply(given, applied, numbers, negative)
    assert torch.equal(given, before) and 4 < applied.sum() < 20
    for image, on, row, signs, result in zip(given, applied, numbers.tolist(), negative.tolist(), found, strict=True):
        expected = image
        if on:
            whole = (image * 255).round().to(torch.uint8)
            for number, sign in zip(row, signs, strict=True):
                whole = one_image(whole, OPERATIONS[number], -1 if sign else 1)
            expected = whole / 255
        assert torch.equal(result, expected)


def test_operations_and_signs_are_drawn_evenly_and_apart() -> None:
    stage = RandAugment(probability=0.5)
    applied, numbers, negative = stage.parameters(uniforms(0, 0, np.arange(28_000), 0, stage.draws), 32, 32)
    assert abs(applied.float().mean() - 0.5) < 0.02 and (abs(negative.float().mean(0) - 0.5) < 0.02).all()
    pairs = torch.bincount(numbers[:, 0] * 14 + numbers[:, 1], minlength=196)
    assert pairs.min() > 90 and pairs.max() < 200  # 143 expected, standard deviation 12
