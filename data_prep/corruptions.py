"""The 19 common corruptions of ImageNet-C and CIFAR-C as pure functions of an image, a strength and a random state.

They do what the releases were made with, oddities included; where a comment says "as released", the obvious would be
something else. The package imagecorruptions-imaug has the strengths of ImageNet-C built in, draws from numpy's global
state and differs from the releases in elastic transform, frost and the rounding of motion blur; its frost pictures are
used here, and its exact functions are what the tests compare with.

Shapes: H height, W width, C = 3 channels (RGB).
"""

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.random import MT19937, RandomState, SeedSequence
from PIL import Image, ImageOps
from scipy import ndimage

from .corruption.constants import CORRUPTIONS, SEVERITIES, STRENGTHS, TABLES, Strength
from .corruption.parts import (
    Floats,
    Pixels,
    blurred,
    compiled_glass,
    disk,
    frost_picture,
    plasma,
    smeared,
    zoom_matrix,
    zoom_operator,
)

__all__ = ["CORRUPTIONS", "SEVERITIES", "TABLES", "contact_sheet", "corrupt", "random_state"]

_ALL_BITS = (1 << 64) - 1
_FROST_PICTURES = 5
"""The release draws from the first five of its six pictures."""
_LUMINANCE_OF_RGB = np.array([0.299, 0.587, 0.114], np.float32)


def corrupt(
    image_HWC: Pixels, name: str, severity: int, table: str = "cifar", seed_key: Sequence[int] = (0, 0)
) -> Pixels:
    """One corrupted image: uint8 (H, W, 3), freshly allocated.

    Args:
        severity: 1 to 5.
        table: "cifar" for the strengths of CIFAR-C, "imagenet" for those of ImageNet-C.
        seed_key: whole numbers that name the image, such as (seed, index); with corruption and severity they fix all
            random draws.

    Raises:
        ValueError: unknown corruption, severity or table, or an image of another type or shape.
    """
    if name not in CORRUPTIONS:
        near = difflib.get_close_matches(name, CORRUPTIONS, n=3) or CORRUPTIONS
        raise ValueError(f'unknown corruption "{name}"; nearest: {", ".join(near)}')
    if severity not in SEVERITIES:
        raise ValueError(f"severity should be 1 to 5, found {severity}")
    if table not in TABLES:
        raise ValueError(f'unknown table of strengths "{table}"; allowed: {", ".join(TABLES)}')
    if image_HWC.dtype != np.uint8 or image_HWC.ndim != 3 or image_HWC.shape[2] != 3 or min(image_HWC.shape[:2]) < 16:
        raise ValueError(
            "an image to corrupt should be uint8 of shape (H, W, 3) with at least 16 x 16 pixels, "
            f"found {image_HWC.dtype} of shape {image_HWC.shape}"
        )
    strength = STRENGTHS[table][name][severity - 1]
    changed = _FUNCTIONS[name](np.ascontiguousarray(image_HWC), strength, random_state(name, severity, seed_key))
    # Cut off, not rounded, as released.
    return changed if changed.dtype == np.uint8 else np.clip(changed, 0, 255).astype(np.uint8)


def random_state(name: str, severity: int, seed_key: Sequence[int]) -> RandomState:
    """Where the draws for one image come from: numpy's frozen generator, whose numbers no new version changes."""
    key = (*(part & _ALL_BITS for part in seed_key), CORRUPTIONS.index(name), severity)
    return RandomState(MT19937(SeedSequence(key)))


def contact_sheet(image_HWC: Pixels, table: str = "cifar", margin: int = 2) -> Pixels:
    """One row per corruption: the image as it is, then severities 1 to 5; white margins between."""
    rows = [
        [image_HWC, *(corrupt(image_HWC, name, severity, table) for severity in SEVERITIES)] for name in CORRUPTIONS
    ]
    border = ((margin, 0), (margin, 0), (0, 0))
    return np.vstack([np.hstack([np.pad(cell, border, constant_values=255) for cell in row]) for row in rows])


def _gaussian_noise(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Adds normal noise; strength: its standard deviation."""
    pixels = image_HWC / 255.0
    return np.clip(pixels + random.normal(size=pixels.shape, scale=strength[0]), 0, 1) * 255


def _shot_noise(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Counts photons; strength: how many make white."""
    return np.clip(random.poisson(image_HWC / 255.0 * strength[0]) / strength[0], 0, 1) * 255


def _impulse_noise(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Sets values of single channels to black or white; strength: the share of them."""
    hit_HWC = random.random_sample(image_HWC.shape) <= strength[0]
    white_HWC = random.random_sample(image_HWC.shape) <= 0.5
    return np.where(hit_HWC, np.where(white_HWC, np.uint8(255), np.uint8(0)), image_HWC)


def _speckle_noise(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Adds normal noise in proportion to the value; strength: its standard deviation."""
    pixels = image_HWC / 255.0
    return np.clip(pixels + pixels * random.normal(size=pixels.shape, scale=strength[0]), 0, 1) * 255


def _gaussian_blur(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Strength: standard deviation in pixels."""
    return np.clip(blurred(image_HWC / 255.0, strength[0]), 0, 1) * 255


def _glass_blur(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Blurs, moves pixels about and blurs again; strength: standard deviation, largest distance, passes."""
    sigma, distance, passes = strength[0], int(strength[1]), int(strength[2])
    pixels = (blurred(image_HWC / 255.0, sigma) * 255).astype(np.uint8)
    height, width = (side - 2 * distance for side in pixels.shape[:2])
    moves = random.randint(-distance, distance, size=(passes, height, width, 2))
    compiled_glass()(pixels, moves, distance)
    return np.clip(blurred(pixels / 255.0, sigma), 0, 1) * 255


def _defocus_blur(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Convolves with a disk; strength: its radius, and the standard deviation that softens its edge."""
    return np.clip(cv2.filter2D(image_HWC / 255.0, -1, disk(*strength)).astype(np.float64, copy=False), 0, 1) * 255


def _motion_blur(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Smears in one direction; strength: radius and standard deviation of the smear."""
    radius, sigma = strength
    return smeared(image_HWC, radius, sigma, random.uniform(-45, 45))


def _zoom_blur(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Averages the image, counted twice, with zoomed ones; strength: end and step of the factors from 1 on."""
    height, width = image_HWC.shape[:2]
    pixels = (image_HWC.reshape(-1, 3) / 255.0).astype(np.float32)
    return np.clip(zoom_operator(height, width, *strength) @ pixels, 0, 1).reshape(image_HWC.shape) * 255


def _fog(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Adds a plasma fractal and scales back; strength: thickness, and decay of the plasma's finer steps."""
    thickness, decay = strength
    pixels, brightest = image_HWC / 255.0, image_HWC.max() / 255.0
    height, width = image_HWC.shape[:2]
    fog = plasma(1 << (max(height, width) - 1).bit_length(), decay, random)[:height, :width, None]
    return np.clip((pixels + thickness * fog) * brightest / (brightest + thickness), 0, 1) * 255


def _frost(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Adds a random part of a random picture of frost; strength: weights of image and frost."""
    height, width = image_HWC.shape[:2]
    picture = frost_picture(random.randint(_FROST_PICTURES), height, width)
    top = random.randint(0, picture.shape[0] - height)
    left = random.randint(0, picture.shape[1] - width)
    return strength[0] * image_HWC + strength[1] * picture[top : top + height, left : left + width]


def _snow(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Whitens the image and lets flakes fall over it, once as drawn and once turned by 180 degrees.

    Strength: mean and deviation of the noise that flakes are cut from, zoom, threshold, radius and deviation of their
    smear, weight of the image that is not whitened.
    """
    mean, deviation, zoom, threshold, radius, sigma, weight = strength
    pixels = (image_HWC / 255.0).astype(np.float32)
    height, width = pixels.shape[:2]
    noise = random.normal(size=(height, width), loc=mean, scale=deviation)
    noise = zoom_matrix(height, zoom) @ noise @ zoom_matrix(width, zoom).T
    noise[noise < threshold] = 0
    flakes_u8 = (np.clip(noise, 0, 1) * 255).astype(np.uint8)
    flakes = (smeared(flakes_u8, radius, sigma, random.uniform(-135, -45)) / 255.0)[..., None]
    whitened = np.maximum(pixels, (pixels @ _LUMINANCE_OF_RGB)[..., None] * 1.5 + 0.5)
    return np.clip(weight * pixels + (1 - weight) * whitened + flakes + np.rot90(flakes, k=2), 0, 1) * 255


def _spatter(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Drops of water, or splashes of mud.

    Strength: mean and deviation of the noise that drops are cut from, their blur, threshold, weight of water or blur
    of mud, and whether it is mud.
    """
    mean, deviation, sigma, threshold, amount, mud = strength
    pixels = image_HWC.astype(np.float32) / np.float32(255)
    liquid = blurred(random.normal(size=pixels.shape[:2], loc=mean, scale=deviation), sigma)
    liquid[liquid < threshold] = 0
    if mud:
        cover = blurred((liquid > threshold).astype(np.float32), amount)
        cover = np.where(cover < 0.8, 0, cover)[..., None]
        return np.clip(pixels * (1 - cover) + np.array([63, 42, 20]) / 255 * cover, 0, 1) * 255
    drops = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    relief: Any = cv2.equalizeHist(cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(relief, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    water = drops * cv2.blur(relief, (3, 3)).astype(np.float32)
    water = (water * (amount / max(float(water.max()), 1.0)))[..., None]
    return np.clip(pixels + water * (np.array([175, 238, 238], np.float32) / 255), 0, 1) * 255


def _contrast(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Strength: what remains of the distance to each channel's mean."""
    pixels = image_HWC / 255.0
    means_11C = pixels.mean(axis=(0, 1), keepdims=True)
    return np.clip((pixels - means_11C) * strength[0] + means_11C, 0, 1) * 255


def _brightness(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Raises the value of HSV, which keeps the ratios of the channels; strength: by how much."""
    pixels = image_HWC / 255.0
    value_HW1 = pixels.max(axis=2, keepdims=True)
    raised_HW1 = np.clip(value_HW1 + strength[0], 0, 1)
    ratio_HW1 = raised_HW1 / np.where(value_HW1 > 0, value_HW1, 1)
    return (raised_HW1 - (value_HW1 - pixels) * ratio_HW1) * 255


def _saturate(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """Changes the saturation of HSV; strength: factor and term. Grey has hue 0, so it turns red, as released."""
    pixels = image_HWC / 255.0
    value_HW1 = pixels.max(axis=2, keepdims=True)
    below_HWC = value_HW1 - pixels
    range_HW1 = below_HWC.max(axis=2, keepdims=True)
    saturation_HW1 = range_HW1 / np.where(value_HW1 > 0, value_HW1, 1)
    wanted_HW1 = np.clip(saturation_HW1 * strength[0] + strength[1], 0, 1)
    pure_HWC = np.where(range_HW1 > 0, below_HWC / np.where(range_HW1 > 0, range_HW1, 1), np.array([0.0, 1.0, 1.0]))
    return (value_HW1 - value_HW1 * wanted_HW1 * pure_HWC) * 255


def _jpeg_compression(image_HWC: Pixels, strength: Strength, random: RandomState) -> Pixels:
    """Strength: libjpeg's quality."""
    file = BytesIO()
    Image.fromarray(image_HWC).save(file, "JPEG", quality=int(strength[0]))
    return np.array(Image.open(file))


def _pixelate(image_HWC: Pixels, strength: Strength, random: RandomState) -> Pixels:
    """Strength: share of the pixels that remain along each side."""
    height, width = image_HWC.shape[:2]
    small = Image.fromarray(image_HWC).resize(
        (int(width * strength[0]), int(height * strength[0])), Image.Resampling.BOX
    )
    return np.array(small.resize((width, height), Image.Resampling.BOX))


def _elastic_transform(image_HWC: Pixels, strength: Strength, random: RandomState) -> Floats:
    """A random affine map, then a random smooth shift of every pixel.

    Strength: size of the shifts, deviation of their blur, and how far the three points of the affine map move, all in
    pixels.
    """
    size, sigma, distance = strength
    height, width = image_HWC.shape[:2]
    centre, arm = np.array([height // 2, width // 2]), min(height, width) // 3
    # The centre is (row, column) where OpenCV wants (x, y), as released: it matters for images that are not square.
    corners_32 = (centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    moved_32 = corners_32 + random.uniform(-distance, distance, size=(3, 2)).astype(np.float32)
    pixels = cv2.warpAffine(
        image_HWC.astype(np.float32) / np.float32(255),
        cv2.getAffineTransform(corners_32, moved_32),
        (width, height),
        borderMode=cv2.BORDER_REFLECT_101,
    )
    right_HW, down_HW = (
        (blurred(random.uniform(-1, 1, size=(height, width)), sigma, "reflect", 3.0) * size).astype(np.float32)
        for _ in range(2)
    )
    places = (np.arange(height)[:, None] + down_HW, np.arange(width) + right_HW)
    channels = [ndimage.map_coordinates(pixels[..., c], places, order=1, mode="reflect") for c in range(3)]
    return np.clip(np.stack(channels, axis=2), 0, 1) * 255


_FUNCTIONS: Mapping[str, Callable[[Pixels, Strength, RandomState], Any]] = MappingProxyType(
    {name: globals()[f"_{name}"] for name in CORRUPTIONS}
)


def main(arguments: Sequence[str]) -> None:
    """`python -m data_prep.corruptions IMAGE OUT.png [cifar|imagenet]`: the contact sheet of an image, cut to a square.

    The square has 32 pixels a side for CIFAR's strengths, shown four times as large, and 224 for ImageNet's.
    """
    if len(arguments) not in (2, 3):
        sys.exit("usage: python -m data_prep.corruptions IMAGE OUT.png [cifar|imagenet]")
    table = arguments[2] if len(arguments) == 3 else "cifar"
    side, times = (224, 1) if table == "imagenet" else (32, 4)
    square = ImageOps.fit(Image.open(arguments[0]).convert("RGB"), (side, side), Image.Resampling.BICUBIC)
    sheet = Image.fromarray(contact_sheet(np.array(square), table))
    sheet.resize((sheet.width * times, sheet.height * times), Image.Resampling.NEAREST).save(arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])
