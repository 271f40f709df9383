"""Windows and centre crops against torchvision's functions for PIL images, one image at a time."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import functional as reference

from data_prep.augmentation.geometry import CentreCrop, WindowResize, resized_window

RNG = np.random.default_rng(0)
SIZES = [(64, 64), (61, 90), (120, 47), (40, 40), (33, 200)]
NOTHING = np.empty(0, np.int64)


def image(height: int, width: int) -> NDArray[np.uint8]:
    small = Image.fromarray(RNG.integers(0, 256, (9, 9, 3), np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def difference(found: NDArray[np.uint8], expected: Image.Image) -> int:
    assert found.dtype == np.uint8 and found.shape[:2] == expected.size[::-1]
    return int(np.abs(found.astype(int) - np.asarray(expected).astype(int)).max())


@pytest.mark.parametrize("size", SIZES)
def test_windows_equal_torchvisions_to_one_grey_level(size: tuple[int, int]) -> None:
    pixels, geometry = image(*size), WindowResize(48, scale=(0.1, 1.0))
    uniforms = RNG.random((20, geometry.draws))
    heights, widths = (np.full(20, side) for side in size)
    for row in geometry.parameters(uniforms, heights, widths):
        expected = reference.resized_crop(Image.fromarray(pixels), *row.tolist(), [48, 48])
        assert difference(geometry.apply(pixels, row), expected) <= 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("geometry", [CentreCrop(32), CentreCrop(32, shorter_edge=37), CentreCrop(32, resize=37)])
def test_evaluation_equals_torchvision_to_one_grey_level(geometry: CentreCrop, size: tuple[int, int]) -> None:
    pixels = image(*size)
    resized = Image.fromarray(pixels)
    if geometry.shorter_edge:
        resized = reference.resize(resized, geometry.shorter_edge)
    if geometry.resize:
        resized = reference.resize(resized, [geometry.resize] * 2)
    assert difference(geometry.apply(pixels, NOTHING), reference.center_crop(resized, [32])) <= 1


def test_an_image_that_is_too_small_gets_a_black_border() -> None:
    for size in ((20, 50), (20, 21), (31, 32)):
        pixels = image(*size)
        expected = reference.center_crop(Image.fromarray(pixels), [32])
        assert difference(CentreCrop(32).apply(pixels, NOTHING), expected) == 0


def test_a_window_is_cut_from_the_resized_image() -> None:
    pixels = image(50, 80)
    for options, size in (({"shorter_edge": 40}, (40, 64)), ({"resize": 40}, (40, 40))):
        geometry = WindowResize(24, scale=(0.2, 1.0), **options)
        resized = reference.resize(Image.fromarray(pixels), list(size))
        parameters = geometry.parameters(RNG.random((9, geometry.draws)), np.full(9, 50), np.full(9, 80))
        assert (parameters[:, :2] + parameters[:, 2:] <= size).all()
        for row in parameters:
            expected = reference.resized_crop(resized, *row.tolist(), [24, 24])
            assert difference(geometry.apply(pixels, row), expected) <= 2  # rounded twice


def test_windows_follow_torchvisions_rule() -> None:
    """Restated with loops: the first of ten windows that fits, else the largest central one."""
    geometry = WindowResize(8, scale=(0.5, 1.0), ratio=(0.75, 4 / 3))
    sizes = [SIZES[number % len(SIZES)] for number in range(60)]
    uniforms = RNG.random((60, geometry.draws))
    found = geometry.parameters(uniforms, *(np.array(sides) for sides in zip(*sizes, strict=True)))
    fallbacks = 0
    for (height, width), numbers, row in zip(sizes, uniforms, found, strict=True):
        for attempt in range(10):
            area = height * width * (0.5 + 0.5 * numbers[2 * attempt])
            ratio = math.exp(math.log(0.75) + (math.log(4 / 3) - math.log(0.75)) * numbers[2 * attempt + 1])
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if w <= width and h <= height:
                expected = [int(numbers[-2] * (height - h + 1)), int(numbers[-1] * (width - w + 1)), h, w]
                break
        else:
            fallbacks += 1
            h, w = min(height, round(width / 0.75)), min(width, round(height * 4 / 3))
            expected = [(height - h) // 2, (width - w) // 2, h, w]
        assert row.tolist() == expected
    assert fallbacks > 5


def test_windows_cover_area_and_place_evenly() -> None:
    geometry = WindowResize(8, scale=(0.2, 0.8), ratio=(1.0, 1.0))
    uniforms = np.random.default_rng(1).random((4000, geometry.draws))
    parameters = geometry.parameters(uniforms, np.full(4000, 300), np.full(4000, 300))
    area = parameters[:, 2] * parameters[:, 3] / 300**2
    assert (parameters[:, 2] == parameters[:, 3]).all()
    assert area.min() > 0.19 and area.max() < 0.81 and abs(area.mean() - 0.5) < 0.01
    place = parameters[:, 0] / (300 - parameters[:, 2])
    assert abs(place.mean() - 0.5) < 0.02 and abs(place.std() - 12**-0.5) < 0.02


def test_grey_images_and_windows_of_the_right_size() -> None:
    grey = image(40, 60)[:, :, :1]
    found = resized_window(grey, 5, 6, 20, 30, 16, 16)
    expected = reference.resized_crop(Image.fromarray(grey[:, :, 0]), 5, 6, 20, 30, [16, 16])
    assert found.shape == (16, 16, 1) and difference(found[:, :, 0], expected) <= 1
    assert np.array_equal(resized_window(grey, 5, 6, 16, 16, 16, 16), grey[5:21, 6:22])


def test_wrong_lengths_are_named() -> None:
    for options in ({"size": 0}, {"size": 4, "resize": 0}, {"size": 4, "shorter_edge": -1}):
        with pytest.raises(ValueError, match="at least 1"):
            CentreCrop(**options)
    with pytest.raises(ValueError, match="not both"):
        WindowResize(4, shorter_edge=5, resize=5)
