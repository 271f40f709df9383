"""Every stage against torchvision's function for one image, and the compiled pass against the stages."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

from data_prep.augment import PRESETS, Preset, augment, preset, reference
from data_prep.augmentation import stages
from data_prep.augmentation.geometry import CentreCrop, WindowResize
from data_prep.augmentation.randaugment import RandAugment
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


def test_a_window_may_get_another_size() -> None:
    stage, given = stages.RandomResizedCrop((0.16, 1.0), ratio=(1.0, 1.0), size=14), images(3, 16, 16)
    parameters = draw(stage, 16, 16)
    assert torch.equal(parameters[2], parameters[3]) and parameters[2].max() == 16
    result = stage.apply(given, *parameters)
    for image, found, *window in zip(given, result, *(side.tolist() for side in parameters), strict=True):
        expected = tv.resized_crop(image, *window, size=[14, 14], antialias=True)
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_solarise(channels: int) -> None:
    stage = stages.Solarise(0.2)
    given = (images(channels, 8, 8) * 255).round() / 255
    (applied,) = draw(stage, 8, 8)
    assert 3 < applied.sum() < 25
    for image, on, found in zip(given, applied.tolist(), stage.apply(given, applied), strict=True):
        assert torch.equal(found, tv.solarize(image, 128 / 255) if on else image)


def test_every_image_and_every_view_draws_its_own_parameters() -> None:
    found = PRESETS["dsf_cifar"]
    views = [found.draw(uniforms(0, 0, np.arange(BATCH), view, found.draws), 32, 32) for view in range(2)]
    for stage, (first, second) in zip(found.all_stages, zip(*views, strict=True), strict=True):
        for ours, others in zip(first, second, strict=True):
            assert not torch.equal(ours, others), stage
            assert len(ours.unique(dim=0)) > 1, stage
    pixels = torch.full((BATCH, 32, 32, 3), 90, dtype=torch.uint8)
    pixels[:, ::3, ::2, 1] = 200
    results = [augment(pixels, found, None, drawn) for drawn in views]
    assert len(torch.cat(results).flatten(1).unique(dim=0)) > 1.9 * BATCH


def test_the_order_of_the_colour_jitter_is_random() -> None:
    stage = stages.ColourJitter(0.4, 0.4, 0.4, 0.1)
    _, order, _ = stage.parameters(uniforms(0, 0, np.arange(6000), 0, stage.draws), 8, 8)
    counts = order.unique(dim=0, return_counts=True)[1]
    assert len(counts) == 24 and counts.min() > 180 and counts.max() < 330  # 250 expected


def test_the_dsf_presets_have_the_papers_stages_in_their_order() -> None:
    crop, window = stages.RandomResizedCrop((0.2, 1.0)), WindowResize(224, scale=(0.08, 1.0))
    flip, grey = stages.HorizontalFlip(), stages.RandomGrey(0.2)
    cifar, imagenet = (stages.ColourJitter(0.4, 0.4, saturation, 0.1, 0.8) for saturation in (0.4, 0.2))
    half, always, seldom = (stages.GaussianBlur((0.1, 2.0), probability) for probability in (0.5, 1.0, 0.1))
    assert PRESETS["dsf_cifar"].stages == (crop, RandAugment(0.5), cifar, grey, half, flip)
    assert PRESETS["dsf_cifar_no_randaugment"].stages == (crop, cifar, grey, half, flip)
    assert PRESETS["dsf_imagenet_1"].stages == (imagenet, grey, always, flip)
    assert PRESETS["dsf_imagenet_2"].stages == (imagenet, grey, seldom, stages.Solarise(0.2), flip)
    assert PRESETS["dsf_imagenet_1"].geometry == PRESETS["dsf_imagenet_2"].geometry == window


def test_images_in_another_order_of_memory() -> None:
    found = PRESETS["dsf_cifar"]
    pixels = batch_for(found, 3, 32)
    drawn = found.draw(uniforms(0, 0, np.arange(BATCH), 0, found.draws), 32, 32)
    turned = pixels.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
    assert torch.equal(augment(turned, found, None, drawn), augment(pixels, found, None, drawn))


def batch_for(found: Preset, channels: int, side: int) -> Tensor:
    side = side if found.geometry is None else found.geometry.size
    count = BATCH if side <= 64 else 3
    pixels = images(channels, side, side)[:count].permute(0, 2, 3, 1)
    return (pixels * 255).round().to(torch.uint8).contiguous()


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("channels", "side"), [(3, 32), (1, 8)])
def test_compiled_presets_equal_their_reference(name: str, channels: int, side: int) -> None:
    found = PRESETS[name]
    constants = None if found.protocol is None else ((0.4, 0.5, 0.6)[:channels], (0.2, 0.25, 0.3)[:channels])
    pixels = batch_for(found, channels, side)
    before = pixels.clone()
    height, width = pixels.shape[1:3]
    drawn = found.draw(uniforms(0, 0, np.arange(len(pixels)), 0, found.draws), height, width)
    result, expected = augment(pixels, found, constants, drawn), reference(pixels, found, constants, drawn)
    assert result.dtype == torch.float32 and result.shape == expected.shape and result.is_contiguous()
    assert torch.equal(pixels, before)
    difference_B = (result - expected).abs().amax(dim=(1, 2, 3))
    if any(isinstance(stage, RandAugment) for stage in found.stages):
        # Of values rounded to 8 bits, about one in 30,000 lies too near to halfway for the last bit not to matter.
        assert difference_B.max() < 0.2 and (difference_B < 2e-5).float().mean() > 0.9
    else:
        assert difference_B.max() < 2e-5
    for one in range(3):  # an image does not depend on its neighbours
        alone = tuple(tuple(tensor[one : one + 1] for tensor in stage) for stage in drawn)
        torch.testing.assert_close(augment(pixels[one : one + 1], found, constants, alone)[0], result[one])


@pytest.mark.parametrize("name", ["plain", "amc_translate", "vmf_cifar", "imagenet_linear"])
def test_moving_pixels_is_exact(name: str) -> None:
    found, constants = preset(name, entry("cifar10"))
    pixels = batch_for(found, 3, 32)
    drawn = found.draw(uniforms(0, 0, np.arange(len(pixels)), 0, found.draws), *pixels.shape[1:3])
    assert torch.equal(augment(pixels, found, constants, drawn), reference(pixels, found, constants, drawn))


PASSES = [
    stages.RandomResizedCrop((0.08, 1.0)),
    stages.RandomResizedCrop((0.3, 1.0), size=13),
    stages.RandomResizedCrop((0.3, 1.0), size=40),
    stages.ColourJitter(0.4, 0.4, 0.4, 0.1, probability=0.8),
    stages.RandomGrey(0.5),
    stages.GaussianBlur((0.1, 2.0), probability=0.5),
    stages.Solarise(0.5),
    stages.HorizontalFlip(),
    stages.ReflectPadCrop(4),
    RandAugment(),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stage", PASSES)
def test_every_compiled_pass_equals_its_stage(stage: stages.Stage, shape: tuple[int, int, int]) -> None:
    pixels = (images(*shape) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    pixels[0] = 64  # without any colour or contrast
    # A stage in front keeps flips and crops from being merged with what comes before and after them.
    for one in (Preset((stage,)), Preset((stages.Solarise(0.3), stage, stages.Solarise(0.3)))):
        drawn = one.draw(uniforms(1, 0, np.arange(BATCH), 0, one.draws), *shape[1:])
        expected = reference(pixels, one, None, drawn)
        tolerance = 0 if isinstance(stage, RandAugment) else 1e-5
        torch.testing.assert_close(augment(pixels, one, None, drawn), expected, atol=tolerance, rtol=0)


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
    with pytest.raises(ValueError, match="preset imagenet_eval is for images of 3 channels; those of mnist have 1"):
        preset("imagenet_eval", entry("mnist"))
    assert Preset().draws == 0


def test_imagenets_constants_are_those_of_torchvision() -> None:
    from torchvision.transforms._presets import ImageClassification

    found, constants = preset("imagenet_eval", entry("cifar10"))
    theirs = ImageClassification(crop_size=224)
    assert constants == (tuple(theirs.mean), tuple(theirs.std))
    assert found.geometry == CentreCrop(theirs.crop_size[0], shorter_edge=theirs.resize_size[0])
