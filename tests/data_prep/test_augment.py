"""Every stage against torchvision's function for one image, and the compiled pass against the stages."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

from data_prep import stages
from data_prep.augment import PRESETS, Preset, augment, preset, reference
from data_prep.catalogue import entry
from data_prep.randomness import uniforms

BATCH = 64
SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 16, 24)]


def images(channels: int, height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    smooth = torch.rand((BATCH, channels, height // 4, width // 4), generator=generator)
    noise = torch.rand((BATCH, channels, height, width), generator=generator)
    return 0.7 * torch.nn.functional.interpolate(smooth, (height, width), mode="bilinear") + 0.3 * noise


def draw(stage: stages.Stage, height: int, width: int, seed: int = 0) -> tuple[Tensor, ...]:
    return stage.parameters(uniforms(seed, 0, np.arange(BATCH), 0, stage.draws), height, width)


@pytest.mark.parametrize("shape", SHAPES)
def test_reflect_pad_crop(shape: tuple[int, int, int]) -> None:
    stage, given = stages.ReflectPadCrop(4), images(*shape)
    rows, columns = draw(stage, *shape[1:])
    assert set(rows.tolist()) == set(range(9)) and set(columns.tolist()) == set(range(9))
    result = stage.apply(given, rows, columns)
    for image, row, column, found in zip(given, rows.tolist(), columns.tolist(), result, strict=True):
        padded = tv.pad(image, [4], padding_mode="reflect")
        assert torch.equal(found, tv.crop(padded, row, column, *shape[1:]))


def test_too_small_images_cannot_be_padded() -> None:
    with pytest.raises(ValueError, match="2 x 8 pixels are too small to be padded by 4"):
        draw(stages.ReflectPadCrop(4), 2, 8)


def test_horizontal_flip() -> None:
    stage, given = stages.HorizontalFlip(), images(3, 8, 8)
    (flip,) = draw(stage, 8, 8)
    assert 16 < flip.sum() < 48
    for image, flipped, found in zip(given, flip.tolist(), stage.apply(given, flip), strict=True):
        assert torch.equal(found, tv.horizontal_flip(image) if flipped else image)


@pytest.mark.parametrize("shape", SHAPES)
def test_random_resized_crop(shape: tuple[int, int, int]) -> None:
    stage, given = stages.RandomResizedCrop((0.2, 1.0)), images(*shape)
    parameters = draw(stage, *shape[1:])
    result = stage.apply(given, *parameters)
    for image, found, *window in zip(given, result, *(side.tolist() for side in parameters), strict=True):
        assert 0 < window[2] <= shape[1] - window[0] and 0 < window[3] <= shape[2] - window[1]
        expected = tv.resized_crop(image, *window, size=list(shape[1:]), antialias=True)
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_windows_have_the_distribution_of_torchvision() -> None:
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    stage = stages.RandomResizedCrop((0.2, 1.0))
    ours = stage.parameters(uniforms(0, 0, np.arange(4000), 0, stage.draws), 32, 32)
    image = torch.zeros(3, 32, 32)
    theirs = torch.tensor([RandomResizedCrop.get_params(image, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)])
    for our, their in zip(ours, theirs.T, strict=True):
        assert abs(our.double().mean() - their.double().mean()) < 5 * their.double().std() * (2 / 4000) ** 0.5
        assert abs(our.double().std() / their.double().std() - 1) < 0.06


def test_no_try_fits_takes_the_largest_window_in_the_centre() -> None:
    stage = stages.RandomResizedCrop((0.99, 1.0), ratio=(3.0, 4.0))
    top, left, height, width = (side[0].item() for side in draw(stage, 32, 32))
    assert (top, left, height, width) == (10, 0, 11, 32)


@pytest.mark.parametrize("shape", SHAPES)
def test_colour_jitter(shape: tuple[int, int, int]) -> None:
    stage, given = stages.ColourJitter(0.4, 0.4, 0.4, 0.1, probability=0.8), images(*shape)
    given[0] = 0.25  # without any colour or contrast
    applied, orders, factors = draw(stage, *shape[1:])
    assert 38 < applied.sum() < 62 and len({tuple(order) for order in orders.tolist()}) > 15
    operations = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)
    result = stage.apply(given, applied, orders, factors)
    for image, on, order, factor, found in zip(given, applied, orders.tolist(), factors.tolist(), result, strict=True):
        for number in order if on else ():
            if shape[0] == 3 or number < 2:
                image = operations[number](image, factor[number])
        torch.testing.assert_close(found, image, atol=5e-6, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_random_grey(channels: int) -> None:
    stage, given = stages.RandomGrey(0.2), images(channels, 8, 8)
    (grey,) = draw(stage, 8, 8)
    for image, on, found in zip(given, grey.tolist(), stage.apply(given, grey), strict=True):
        expected = tv.rgb_to_grayscale(image, num_output_channels=3) if on and channels == 3 else image
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_blur(shape: tuple[int, int, int]) -> None:
    stage, given = stages.GaussianBlur((0.1, 2.0), probability=0.5), images(*shape)
    applied, sigmas = draw(stage, *shape[1:])
    assert 16 < applied.sum() < 48 and sigmas.min() >= 0.1 and sigmas.max() <= 2
    kernel = [2 * min(6, side - 1) + 1 for side in (shape[2], shape[1])]
    result = stage.apply(given, applied, sigmas)
    for image, on, sigma, found in zip(given, applied, sigmas.tolist(), result, strict=True):
        expected = tv.gaussian_blur(image, kernel, [sigma, sigma]) if on else image
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize(("side", "square"), [(32, 8), (8, 2)])
def test_occlusion(side: int, square: int) -> None:
    stage, given = stages.Occlusion(), images(3, side, side) - 0.5
    tops, lefts, heights, widths = draw(stage, side, side)
    many = stage.parameters(uniforms(0, 0, np.arange(2000), 0, 2), side, side)
    assert all(set(corner.tolist()) == set(range(side - square + 1)) for corner in many[:2])
    assert heights.unique().tolist() == widths.unique().tolist() == [square]
    result = stage.apply(given, tops, lefts, heights, widths)
    for image, top, left, found in zip(given, tops.tolist(), lefts.tolist(), result, strict=True):
        assert torch.equal(found, tv.erase(image, top, left, square, square, torch.zeros(1)))


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("data", ["cifar10", "digits"])
def test_presets_equal_their_reference(name: str, data: str) -> None:
    dataset = entry(data)
    channels, side, _ = dataset.image_shape
    found, constants = preset(name, dataset)
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (BATCH, side, side, channels), np.uint8))
    before = pixels.clone()
    drawn = found.draw(uniforms(0, 0, np.arange(BATCH), 0, found.draws), side, side)
    result = augment(pixels, found, constants, drawn)
    assert result.dtype == torch.float32 and result.shape == (BATCH, channels, side, side) and result.is_contiguous()
    assert torch.equal(result, reference(pixels, found, constants, drawn)) and torch.equal(pixels, before)
    for one in range(3):  # an image does not depend on its neighbours
        alone = tuple(tuple(tensor[one : one + 1] for tensor in stage) for stage in drawn)
        torch.testing.assert_close(augment(pixels[one : one + 1], found, constants, alone)[0], result[one])


def test_normalisation_and_divisors() -> None:
    pixels = torch.arange(256, dtype=torch.uint8).repeat(3).reshape(1, 16, 16, 3)
    plain = augment(pixels, PRESETS["plain"], None, ())
    assert torch.equal(plain[0], pixels[0].permute(2, 0, 1) / 255)
    assert augment(pixels, PRESETS["plain_256"], None, ()).max() == 255 / 256
    for name, protocol in (("cifar_eval", "vmf"), ("dsf_cifar_eval", "dsf")):
        found, constants = preset(name, entry("cifar10"))
        assert constants == entry("cifar10").normalisation[protocol]
        expected = tv.normalize(plain[0], *(list(numbers) for numbers in constants))
        torch.testing.assert_close(augment(pixels, found, constants, ())[0], expected)


def test_unknown_presets_and_missing_constants_are_named() -> None:
    with pytest.raises(ValueError, match=r'unknown preset "vmf-cifa"; nearest: vmf_cifar'):
        preset("vmf-cifa", entry("cifar10"))
    with pytest.raises(ValueError, match="mnist has no normalisation constants"):
        preset("vmf_cifar", entry("mnist"))
    assert Preset().draws == 0
