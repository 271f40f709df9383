"""From a decoded image of any size to one of a fixed size: random windows for training, centre crops for evaluation.

Resizing is bilinear with antialiasing, by the function that torchvision calls for uint8 tensors; PIL's differs by at
most one grey level.

Shapes: B images, H height, W width, C channels, K uniform numbers per image, P parameters per image.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

Pixels = NDArray[np.uint8]
Sides = NDArray[np.int64]


class Geometry(Protocol):
    """What a preset does to images of any size before its stages."""

    @property
    def size(self) -> int:
        """Height and width of the result."""

    @property
    def draws(self) -> int:
        """Uniform numbers it needs per image."""

    def parameters(self, uniforms_BK: NDArray[np.float64], heights_B: Sides, widths_B: Sides) -> NDArray[np.int64]:
        """Parameters (B, P) for images of these sizes."""

    def apply(self, image_HWC: Pixels, parameters_P: NDArray[np.int64]) -> Pixels:
        """The image with its row of parameters applied: uint8 (size, size, C), possibly a view of the argument."""


@dataclass(frozen=True)
class _Resized:
    """Geometries that may resize the whole image first.

    Raises:
        ValueError: a length below 1, or both ways of resizing at once.
    """

    size: int
    """Height and width of the result."""
    shorter_edge: int | None = None
    """Resize the image so that its shorter edge has this length, its aspect kept, first."""
    resize: int | None = None
    """Resize the image to a square of this length, its aspect lost, first."""

    def __post_init__(self) -> None:
        if min(self.size, self.shorter_edge or 1, self.resize or 1) < 1 or self.shorter_edge == 0 or self.resize == 0:
            raise ValueError(f"lengths in pixels should be at least 1, found {self}")
        if self.shorter_edge is not None and self.resize is not None:
            raise ValueError(f"an image is resized by its shorter edge or to a square, not both, found {self}")

    def _resized_sides(self, heights_B: Sides, widths_B: Sides) -> tuple[Sides, Sides]:
        """Heights and widths after the first resizing; the longer edge is rounded down, as torchvision does."""
        if self.resize is not None:
            return np.full_like(heights_B, self.resize), np.full_like(widths_B, self.resize)
        if self.shorter_edge is None:
            return heights_B, widths_B
        shorter_B = np.minimum(heights_B, widths_B)
        return self.shorter_edge * heights_B // shorter_B, self.shorter_edge * widths_B // shorter_B

    def _resized(self, image_HWC: Pixels) -> Pixels:
        height, width = image_HWC.shape[:2]
        new_height, new_width = self._resized_sides(np.array([height]), np.array([width]))
        return resized_window(image_HWC, 0, 0, height, width, int(new_height[0]), int(new_width[0]))


@dataclass(frozen=True)
class WindowResize(_Resized):
    """Cuts a window of random area and aspect ratio and resizes it: torchvision's RandomResizedCrop."""

    scale: tuple[float, float] = (0.08, 1.0)
    """Range of the window's share of the area."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Range of width over height, drawn log-uniformly."""
    tries: int = 10

    @property
    def draws(self) -> int:
        return 2 * self.tries + 2

    def parameters(self, uniforms_BK: NDArray[np.float64], heights_B: Sides, widths_B: Sides) -> NDArray[np.int64]:
        """Top, left, height and width of the window by torchvision's rule: the first try that fits, else the centre."""
        heights_B, widths_B = self._resized_sides(heights_B, widths_B)
        return windows(uniforms_BK, heights_B, widths_B, self.scale, self.ratio, self.tries)

    def apply(self, image_HWC: Pixels, parameters_P: NDArray[np.int64]) -> Pixels:
        top, left, height, width = parameters_P.tolist()
        return resized_window(self._resized(image_HWC), top, left, height, width, self.size, self.size)


@dataclass(frozen=True)
class CentreCrop(_Resized):
    """Cuts the central square; smaller images get a black border. For evaluation."""

    @property
    def draws(self) -> int:
        return 0

    def parameters(self, uniforms_BK: NDArray[np.float64], heights_B: Sides, widths_B: Sides) -> NDArray[np.int64]:
        """None: (B, 0)."""
        return np.empty((len(heights_B), 0), np.int64)

    def apply(self, image_HWC: Pixels, parameters_P: NDArray[np.int64]) -> Pixels:
        image_HWC = self._resized(image_HWC)
        height, width = image_HWC.shape[:2]
        border = [(max(0, self.size - side) // 2, (max(0, self.size - side) + 1) // 2) for side in (height, width)]
        if any(map(any, border)):
            image_HWC = np.pad(image_HWC, (*border, (0, 0)))
            height, width = image_HWC.shape[:2]
        top, left = round((height - self.size) / 2), round((width - self.size) / 2)
        return np.ascontiguousarray(image_HWC[top : top + self.size, left : left + self.size])


def windows(
    uniforms_BK: NDArray[np.float64],
    heights_B: Sides,
    widths_B: Sides,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    tries: int,
) -> NDArray[np.int64]:
    """Top, left, height and width of a random window in each image: (B, 4).

    The first of `tries` windows that fits into the image, else the largest central one of an allowed aspect ratio.
    """
    tries_BT2 = uniforms_BK[:, : 2 * tries].reshape(len(uniforms_BK), tries, 2)
    area_BT = (heights_B * widths_B)[:, None] * (scale[0] + (scale[1] - scale[0]) * tries_BT2[..., 0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    ratio_BT = np.exp(low + (high - low) * tries_BT2[..., 1])
    widths_BT, heights_BT = np.rint(np.sqrt(area_BT * ratio_BT)), np.rint(np.sqrt(area_BT / ratio_BT))
    fits_BT = (widths_BT > 0) & (widths_BT <= widths_B[:, None])
    fits_BT &= (heights_BT > 0) & (heights_BT <= heights_B[:, None])
    found_B = fits_BT.any(axis=1)
    first_B = fits_BT.argmax(axis=1)[:, None]
    # What is too tall is cut to the smallest ratio, what is too wide to the largest.
    largest_height_B = np.minimum(heights_B, np.rint(widths_B / ratio[0]))
    largest_width_B = np.minimum(widths_B, np.rint(heights_B * ratio[1]))
    height_B = np.where(found_B, np.take_along_axis(heights_BT, first_B, 1)[:, 0], largest_height_B)
    width_B = np.where(found_B, np.take_along_axis(widths_BT, first_B, 1)[:, 0], largest_width_B)
    top_B = np.where(found_B, np.floor(uniforms_BK[:, -2] * (heights_B - height_B + 1)), (heights_B - height_B) // 2)
    left_B = np.where(found_B, np.floor(uniforms_BK[:, -1] * (widths_B - width_B + 1)), (widths_B - width_B) // 2)
    return np.stack([top_B, left_B, height_B, width_B], axis=1).astype(np.int64)


def resized_window(
    image_HWC: Pixels, top: int, left: int, height: int, width: int, new_height: int, new_width: int
) -> Pixels:
    """Cuts a window and resizes it: uint8 (new_height, new_width, C)."""
    window_HWC = image_HWC[top : top + height, left : left + width]
    if (height, width) == (new_height, new_width):
        return window_HWC
    # numpy copies the window row by row; torch would do so value by value.
    window_1CHW = torch.from_numpy(np.require(window_HWC, requirements=["C", "W"]))[None].permute(0, 3, 1, 2)
    resized_1CHW = interpolate(window_1CHW, (new_height, new_width), mode="bilinear", antialias=True)
    resized_HWC: Pixels = resized_1CHW.permute(0, 2, 3, 1)[0].numpy()
    return resized_HWC
