"""What corruptions are made of: blurs, smears, zooms, plasma, frost, each exact, and quick at 32 and at 224 pixels.

Shapes: H height, W width, C = 3 channels (RGB).
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, sparse

Pixels = NDArray[np.uint8]
Floats = NDArray[np.floating[Any]]

_ROUNDING = 1e-12
"""Lifts what should be a whole grey level but fell short of it by rounding, or all white would be cut off to 254."""


def blurred(values: Floats, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """A Gaussian filter over the first two axes, as one matrix product each: exact, and quick at any width."""
    rows, columns = (_blur_matrix(side, sigma, mode, truncate) for side in values.shape[:2])
    result = rows @ values @ columns.T if values.ndim == 2 else np.tensordot(rows, columns @ values, 1)
    return result + _ROUNDING


@lru_cache(maxsize=64)
def _blur_matrix(side: int, sigma: float, mode: str, truncate: float) -> NDArray[np.float64]:
    if sigma == 0:
        return np.eye(side)
    return ndimage.gaussian_filter1d(np.eye(side), sigma, axis=0, mode=mode, truncate=truncate)


@lru_cache(maxsize=16)
def disk(radius: float, softness: float) -> NDArray[np.float32]:
    reach = 8 if radius <= 8 else int(radius)
    across = np.arange(-reach, reach + 1)
    round_ = (across**2 + across[:, None] ** 2 <= radius**2).astype(np.float32)
    round_ = cv2.GaussianBlur(round_ / round_.sum(), (3, 3) if radius <= 8 else (5, 5), softness)
    used = int(np.abs(across[round_.any(axis=0)]).max())
    return round_[reach - used : reach + used + 1, reach - used : reach + used + 1].copy()


def smeared(image_u8: Pixels, radius: float, sigma: float, angle: float) -> NDArray[np.float32]:
    """ImageMagick's motion blur: half a Gaussian along a line of whole pixels, edges repeated, rounded to 0..255."""
    width = 2 * math.ceil(radius) + 1
    weights = np.exp(-0.5 * (np.arange(width) / sigma) ** 2)
    weights /= weights.sum()
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    height, across = image_u8.shape[:2]
    padded = cv2.copyMakeBorder(image_u8, *(4 * (width,)), cv2.BORDER_REPLICATE).astype(np.float32)
    total = np.full(image_u8.shape, 0.5, np.float32)
    for step, weight in enumerate(weights.astype(np.float32)):
        top, left = width + math.ceil(step * down - 0.5), width + math.ceil(step * right - 0.5)
        total += weight * padded[top : top + height, left : left + across]
    return np.floor(total)


@lru_cache(maxsize=128)
def zoom_matrix(side: int, factor: float) -> NDArray[np.float64]:
    """Cuts the middle of an axis out and stretches it back to `side` pixels, linearly from end to end."""
    kept = math.ceil(side / factor)
    start, stretched = (side - kept) // 2, round(kept * factor)
    places = ((stretched - side) // 2 + np.arange(side)) * ((kept - 1) / (stretched - 1))
    below = np.minimum(places.astype(int), kept - 1)
    share = places - below
    matrix = np.zeros((side, side))
    matrix[np.arange(side), start + below] += 1 - share
    matrix[np.arange(side), start + np.minimum(below + 1, kept - 1)] += share
    return matrix


@lru_cache(maxsize=8)
def zoom_operator(height: int, width: int, end: float, step: float) -> sparse.csr_array:
    """All of zoom blur as one sparse matrix on the pixels of a channel."""
    factors = np.arange(1, end, step)
    total = sparse.eye_array(height * width, format="csr")
    for factor in factors:
        total = total + sparse.kron(zoom_matrix(height, factor), zoom_matrix(width, factor), format="csr")
    return sparse.csr_array((total / (len(factors) + 1)).astype(np.float32))


def plasma(side: int, decay: float, random: RandomState) -> NDArray[np.float64]:
    """A height map in [0, 1] by the diamond-square algorithm on a torus; `side` is a power of two."""
    heights = np.zeros((side, side))
    step, wobble = side, 100.0

    def set_to_mean(part: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        part[:] = sums / 4 + wobble * random.uniform(-wobble, wobble, sums.shape)

    while step >= 2:
        half = step // 2
        corners, centres = heights[::step, ::step], heights[half::step, half::step]
        below, beside = corners + np.roll(corners, -1, 0), corners + np.roll(corners, -1, 1)
        set_to_mean(centres, below + np.roll(below, -1, 1))
        set_to_mean(heights[::step, half::step], centres + np.roll(centres, 1, 0) + beside)
        set_to_mean(heights[half::step, ::step], centres + np.roll(centres, 1, 1) + below)
        step, wobble = half, wobble / decay
    heights -= heights.min()
    return heights / heights.max()


@lru_cache(maxsize=16)
def frost_picture(number: int, height: int, width: int) -> Pixels:
    """RGB; shrunk to a fifth for images of 32 pixels, as released, and never smaller than the image needs."""
    package = find_spec("imagecorruptions")
    if package is None or package.origin is None:
        raise ImportError("frost needs the pictures of imagecorruptions-imaug: pip install imagecorruptions-imaug")
    name = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")[number]
    picture = np.array(Image.open(Path(package.origin).parent / "frost" / name).convert("RGB"))
    side = max(height, width)
    factor = min(1.0, 0.2 * max(side / 32, 1.0))
    factor = max(factor, *((needed + 1) / there for needed, there in zip((height, width), picture.shape, strict=False)))
    if factor != 1.0:
        return cv2.resize(picture, (0, 0), fx=factor, fy=factor).astype(np.uint8, copy=False)
    return picture


@cache
def compiled_glass() -> Callable[[Pixels, NDArray[np.int64], int], None]:
    from numba import njit

    @njit(cache=True, nogil=True)
    def move(pixels: Any, moves: Any, distance: int) -> None:
        height, width = pixels.shape[:2]
        for turn in range(moves.shape[0]):
            for i in range(moves.shape[1]):
                for j in range(moves.shape[2]):
                    row, column = height - distance - i, width - distance - j
                    from_row = row + moves[turn, i, j, 1]
                    from_column = column + moves[turn, i, j, 0]
                    # Copied, not swapped, as released: swapping two views of an array moves one way only.
                    for channel in range(3):
                        pixels[row, column, channel] = pixels[from_row, from_column, channel]

    return move
