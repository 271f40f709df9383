"""Stages of augmentation. Each turns uniform numbers into parameters, and applies them to a batch of images.

Images are float (B, C, H, W), in [0, 1] unless a stage comes after normalisation. Parameters have one row per image.
Given the same parameters each stage equals torchvision's function for one image.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import colour, resampling
from .geometry import windows

Numbers = NDArray[np.float64]


class Stage(Protocol):
    """One step of a preset."""

    @property
    def draws(self) -> int:
        """Uniform numbers it needs per image."""

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Parameters for images of one size."""

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        """The images with the parameters applied; the argument is left as it was."""


@dataclass(frozen=True)
class ReflectPadCrop:
    """Pads by reflection on all sides and cuts a window of the old size: a shift of up to `padding` pixels."""

    padding: int
    draws: int = 2

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Top rows and left columns of the window in the padded image, 0..2 padding."""
        if self.padding >= min(height, width):
            raise ValueError(f"images of {height} x {width} pixels are too small to be padded by {self.padding}")
        return (_below(uniforms_BK[:, 0], 2 * self.padding + 1), _below(uniforms_BK[:, 1], 2 * self.padding + 1))

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        rows_B, columns_B = parameters
        height, width = images_BCHW.shape[-2:]
        rows_BH = _reflected(rows_B - self.padding, height)
        columns_BW = _reflected(columns_B - self.padding, width)
        batch_B = torch.arange(len(images_BCHW), device=images_BCHW.device)
        picked_BHWC = images_BCHW.permute(0, 2, 3, 1)[
            batch_B[:, None, None], rows_BH[:, :, None], columns_BW[:, None, :]
        ]
        return picked_BHWC.permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class HorizontalFlip:
    """Mirrors left and right."""

    probability: float = 0.5
    draws: int = 1

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        return (torch.from_numpy(uniforms_BK[:, 0] < self.probability),)

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        (flip_B,) = parameters
        return torch.where(flip_B[:, None, None, None], images_BCHW.flip(-1), images_BCHW)


@dataclass(frozen=True)
class RandomResizedCrop:
    """Cuts a window of random area and aspect ratio and resizes it (bilinear, antialiased)."""

    scale: tuple[float, float]
    """Range of the window's share of the area."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Range of width over height, drawn log-uniformly."""
    tries: int = 10
    size: int | None = None
    """Height and width of the result; None: those of the image."""

    @property
    def draws(self) -> int:
        return 2 * self.tries + 2

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Top, left, height and width of the window by torchvision's rule: the first try that fits, else the centre."""
        heights_B, widths_B = (np.full(len(uniforms_BK), side) for side in (height, width))
        windows_B4 = windows(uniforms_BK, heights_B, widths_B, self.scale, self.ratio, self.tries)
        return tuple(torch.from_numpy(np.ascontiguousarray(side_B)) for side_B in windows_B4.T)

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        top_B, left_B, height_B, width_B = parameters
        height, width = images_BCHW.shape[-2:]
        rows, columns = self.result_size(height, width)
        rows_BIH = resampling.crop_and_resize_matrix(top_B, height_B, height, rows)
        columns_BJW = resampling.crop_and_resize_matrix(left_B, width_B, width, columns)
        return resampling.separable(images_BCHW, rows_BIH, columns_BJW)

    def result_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of what becomes of images of one size."""
        return (height, width) if self.size is None else (self.size, self.size)


@dataclass(frozen=True)
class ColourJitter:
    """Changes brightness, contrast, saturation and hue in random order; grey images keep hue and saturation."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    """Largest turn, as a share of the circle."""
    probability: float = 1.0
    draws: int = 9

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Whether at all (B,); order of the four (B, 4); factors, and the turn of the hue (B, 4)."""
        order_B4 = torch.from_numpy(uniforms_BK[:, 1:5].argsort(axis=1, kind="stable"))
        strengths_4 = np.array([self.brightness, self.contrast, self.saturation, self.hue])
        lowest_4 = np.array([*(max(0.0, 1 - strength) for strength in strengths_4[:3]), -self.hue])
        highest_4 = np.array([1.0, 1.0, 1.0, 0.0]) + strengths_4
        factors_B4 = lowest_4 + (highest_4 - lowest_4) * uniforms_BK[:, 5:9]
        applied_B = torch.from_numpy(uniforms_BK[:, 0] < self.probability)
        return applied_B, order_B4, torch.from_numpy(factors_B4.astype(np.float32))

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        applied_B, order_B4, factors_B4 = parameters
        operations = (colour.brightness, colour.contrast, colour.saturation, colour.hue)
        result_BCHW = images_BCHW.clone()
        for place in range(4):
            for number, operation in enumerate(operations):
                rows = torch.nonzero(applied_B & (order_B4[:, place] == number))[:, 0]
                if len(rows):
                    result_BCHW[rows] = operation(result_BCHW[rows], factors_B4[rows, number])
        return result_BCHW


@dataclass(frozen=True)
class RandomGrey:
    """Replaces colours by their luminance in all channels."""

    probability: float
    draws: int = 1

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        return (torch.from_numpy(uniforms_BK[:, 0] < self.probability),)

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        (grey_B,) = parameters
        return torch.where(grey_B[:, None, None, None], colour.luminance(images_BCHW), images_BCHW)


@dataclass(frozen=True)
class GaussianBlur:
    """Blurs with a Gaussian, cut off after `radius` pixels, with reflected borders."""

    sigma: tuple[float, float]
    """Range of the standard deviation in pixels."""
    probability: float = 1.0
    radius: int = 6
    draws: int = 2

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Whether at all (B,); standard deviation (B,)."""
        sigma_B = self.sigma[0] + (self.sigma[1] - self.sigma[0]) * uniforms_BK[:, 1]
        return torch.from_numpy(uniforms_BK[:, 0] < self.probability), torch.from_numpy(sigma_B.astype(np.float32))

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        applied_B, sigma_B = parameters
        rows = torch.nonzero(applied_B)[:, 0]
        if not len(rows):
            return images_BCHW
        height, width = images_BCHW.shape[-2:]
        matrices = [resampling.blur_matrix(sigma_B[rows], side, min(self.radius, side - 1)) for side in (height, width)]
        result_BCHW = images_BCHW.clone()
        result_BCHW[rows] = resampling.separable(images_BCHW[rows], *matrices)
        return result_BCHW


@dataclass(frozen=True)
class Solarise:
    """Inverts values from a threshold on."""

    probability: float
    threshold: float = 0.5
    """Between 127 and 128 of the 8-bit values, as PIL's default."""
    draws: int = 1

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        return (torch.from_numpy(uniforms_BK[:, 0] < self.probability),)

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        (applied_B,) = parameters
        inverted_BCHW = applied_B[:, None, None, None] & (images_BCHW >= self.threshold)
        return torch.where(inverted_BCHW, 1 - images_BCHW, images_BCHW)


@dataclass(frozen=True)
class Occlusion:
    """Sets a square to zero that lies wholly inside the image; 8 pixels wide in images of 32."""

    share: float = 0.25
    """Its side as a share of the image's."""
    draws: int = 2

    def parameters(self, uniforms_BK: Numbers, height: int, width: int) -> tuple[Tensor, ...]:
        """Top and left of the square (B,), and its height and width (B,)."""
        sides = [max(1, round(self.share * side)) for side in (height, width)]
        top_B, left_B = (
            _below(uniforms_BK[:, axis], length - side + 1)
            for axis, length, side in zip((0, 1), (height, width), sides, strict=True)
        )
        return top_B, left_B, torch.full_like(top_B, sides[0]), torch.full_like(left_B, sides[1])

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        top_B, left_B, height_B, width_B = (side[:, None] for side in parameters)
        rows_H, columns_W = (torch.arange(side, device=images_BCHW.device) for side in images_BCHW.shape[-2:])
        hit_BH = (rows_H >= top_B) & (rows_H < top_B + height_B)
        hit_BW = (columns_W >= left_B) & (columns_W < left_B + width_B)
        return images_BCHW.masked_fill((hit_BH[:, :, None] & hit_BW[:, None, :])[:, None], 0.0)


def _below(uniforms_B: Numbers, count: int) -> Tensor:
    """Whole numbers 0..count-1."""
    return torch.from_numpy(np.floor(uniforms_B * count).astype(np.int64))


def _reflected(starts_B: Tensor, side: int) -> Tensor:
    """Indices start..start+side-1 folded back into 0..side-1 at both borders: (B, side)."""
    indices = (starts_B[:, None] + torch.arange(side, device=starts_B.device)).abs()
    return (side - 1) - ((side - 1) - indices).abs()
