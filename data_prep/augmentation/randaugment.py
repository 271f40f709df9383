"""RandAugment as torchvision's default has it: two of fourteen operations on 8-bit images, at magnitude 9 of 31.

The magnitude is fixed, so an operation has at most two variants, one per sign. What a variant does to a value or to a
pixel's place is kept in tables, which the torch reference here and the compiled pass both read: they agree exactly.

Shapes: N images, C channels, H height, W width, P = H W pixels, V = 256 values.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

OPERATIONS = (
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "colour",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)
"""In torchvision's order; a parameter's number is the place here."""

UPWARDS = 2.0**-10
"""Added before values are rounded: those of a resized window often lie halfway between two whole numbers, where
otherwise the last bit would decide, and with it the order of additions."""
_SHARE = 9 / 30
"""Magnitude 9 of the bins 0..30, as a share of the largest."""
_LUMINANCE = (0.2989, 0.587, 0.114)


class Tables(NamedTuple):
    """What the operations look up; the first axis of 2 is the sign: 0 positive, 1 negative."""

    sources_52P: Tensor
    """int32: for shears, translations and rotation, the pixel that comes to each place; -1 outside, which is black."""
    values_32V: Tensor
    """uint8: what brightness, posterize and solarize make of each value."""
    own_2V: Tensor
    """float32: each value times a blend's factor."""
    other_2V: Tensor
    """float32: each value times one minus the factor: what the other image of the blend adds."""
    rest_2: Tensor
    """float32: one minus the factor."""
    grey_3V: Tensor
    """float32: each value times its channel's share of the luminance."""


@dataclass(frozen=True)
class RandAugment:
    """Two operations drawn for each image, with replacement, on its values rounded to 8 bits."""

    probability: float = 1.0
    operations: int = 2

    @property
    def draws(self) -> int:
        return 1 + 2 * self.operations

    def parameters(self, uniforms_BK: NDArray[np.float64], height: int, width: int) -> tuple[Tensor, ...]:
        """Whether at all (B,); number of each operation in OPERATIONS (B, 2); whether its sign is negative (B, 2)."""
        numbers_BO = np.floor(uniforms_BK[:, 1 : 1 + self.operations] * len(OPERATIONS)).astype(np.int64)
        negative_BO = uniforms_BK[:, 1 + self.operations :] < 0.5
        applied_B = uniforms_BK[:, 0] < self.probability
        return torch.from_numpy(applied_B), torch.from_numpy(numbers_BO), torch.from_numpy(negative_BO)

    def apply(self, images_BCHW: Tensor, *parameters: Tensor) -> Tensor:
        applied_B, numbers_BO, negative_BO = parameters
        rows = torch.nonzero(applied_B)[:, 0]
        if not len(rows):
            return images_BCHW
        bytes_NCHW = (images_BCHW[rows] * 255 + UPWARDS).round_().clamp_(0, 255).to(torch.uint8)
        for place in range(self.operations):
            signs_N = negative_BO[rows, place].long()
            for number in range(1, len(OPERATIONS)):
                chosen = torch.nonzero(numbers_BO[rows, place] == number)[:, 0]
                if len(chosen):
                    bytes_NCHW[chosen] = operate(bytes_NCHW[chosen], number, signs_N[chosen])
        result_BCHW = images_BCHW.clone()
        result_BCHW[rows] = bytes_NCHW.float() / 255
        return result_BCHW


def operate(images_NCHW: Tensor, number: int, signs_N: Tensor) -> Tensor:
    """One operation on uint8 images, each with its own sign: 0 positive, 1 negative."""
    name = OPERATIONS[number]
    batch, channels, height, width = images_NCHW.shape
    table = tables(height, width, images_NCHW.device)
    if 1 <= number <= 5:
        return _moved(images_NCHW, table.sources_52P[number - 1][signs_N].long())
    if name in ("brightness", "posterize", "solarize"):
        values_NV = table.values_32V[("brightness", "posterize", "solarize").index(name)][signs_N]
        return _looked_up(images_NCHW, values_NV[:, None].expand(batch, channels, 256))
    if name == "colour":
        return images_NCHW if channels == 1 else _blended(images_NCHW, _grey(images_NCHW, table), signs_N, table)
    if name == "contrast":
        # A sum of whole numbers is exact in float64, whatever its order.
        mean_N = _grey(images_NCHW, table).double().sum(dim=(1, 2, 3)).float() / (height * width)
        sums_NV = table.own_2V[signs_N] + (table.rest_2[signs_N] * mean_N)[:, None]
        values_NV = sums_NV.clamp(0, 255).to(torch.uint8)
        return _looked_up(images_NCHW, values_NV[:, None].expand(batch, channels, 256))
    if name == "sharpness":
        return images_NCHW if min(height, width) <= 2 else _blended(images_NCHW, _soft(images_NCHW), signs_N, table)
    if name == "autocontrast":
        return _looked_up(images_NCHW, _stretched(images_NCHW))
    return _looked_up(images_NCHW, _equalised(images_NCHW)) if name == "equalize" else images_NCHW


@lru_cache(maxsize=16)
def tables(height: int, width: int, device: torch.device) -> Tables:
    """The tables for images of one size."""
    values_V = torch.arange(256, dtype=torch.uint8)
    ratios = [1.0 + sign * _magnitude(0.9) for sign in (1, -1)]
    own_2V = torch.stack([ratio * values_V for ratio in ratios])
    bright_2V = own_2V.clamp(0, 255).to(torch.uint8)
    posterized_V = values_V & -(2 ** round(4 * _SHARE))
    solarized_V = torch.where(values_V >= 255 - _magnitude(255.0), 255 - values_V, values_V)
    found = Tables(
        sources_52P=_sources(height, width),
        values_32V=torch.stack([bright_2V, posterized_V.expand(2, 256), solarized_V.expand(2, 256)]),
        own_2V=own_2V,
        other_2V=torch.stack([(1.0 - ratio) * values_V for ratio in ratios]),
        rest_2=torch.tensor([1.0 - ratio for ratio in ratios]),
        grey_3V=torch.stack([share * values_V for share in _LUMINANCE]),
    )
    return Tables(*(table.to(device) for table in found))


def _magnitude(largest: float) -> float:
    """The magnitude in float32, as torchvision reads it from a tensor."""
    return torch.linspace(0.0, largest, 31)[9].item()


def _sources(height: int, width: int) -> Tensor:
    """(5, 2, P): where the pixels of each geometric operation come from."""
    shear, turn = _magnitude(0.3), math.radians(_magnitude(30.0))
    across, down = (int(_magnitude(150.0 / 331.0 * side)) for side in (width, height))
    matrices = []
    for sign in (1, -1):
        # Shears leave the upper left corner in place; coordinates here start in the middle.
        cos, sin, skew = math.cos(turn), math.sin(sign * turn), sign * shear
        matrices += [
            [1.0, skew, skew * height / 2, 0.0, 1.0, 0.0],
            [1.0, 0.0, 0.0, skew, 1.0, skew * width / 2],
            [1.0, 0.0, -sign * across, 0.0, 1.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 1.0, -sign * down],
            [cos, -sin, 0.0, sin, cos, 0.0],
        ]
    # torchvision's own steps in float32 decide which neighbour is the nearest.
    theta_M23 = torch.tensor(matrices).reshape(-1, 2, 3)
    x_W = torch.linspace(-width * 0.5 + 0.5, width * 0.5 - 0.5, width)
    y_H = torch.linspace(-height * 0.5 + 0.5, height * 0.5 - 0.5, height)
    base_HW3 = torch.stack(torch.broadcast_tensors(x_W[None, :], y_H[:, None], torch.ones(1, 1)), -1)
    scaled_M32 = theta_M23.transpose(1, 2) / torch.tensor([0.5 * width, 0.5 * height])
    grid_MHW2 = (base_HW3.reshape(1, -1, 3).expand(len(matrices), -1, -1) @ scaled_M32).reshape(-1, height, width, 2)
    numbers_11HW = torch.arange(1, height * width + 1, dtype=torch.float32).reshape(1, 1, height, width)
    moved_M1HW = torch.nn.functional.grid_sample(
        numbers_11HW.expand(len(matrices), -1, -1, -1), grid_MHW2, mode="nearest", align_corners=False
    )
    sources_25P = moved_M1HW.reshape(2, 5, height * width).to(torch.int32) - 1
    return sources_25P.transpose(0, 1).contiguous()


def _moved(images_NCHW: Tensor, sources_NP: Tensor) -> Tensor:
    flat_NCP = images_NCHW.flatten(2)
    picked_NCP = flat_NCP.gather(2, sources_NP.clamp(min=0)[:, None].expand_as(flat_NCP))
    return picked_NCP.masked_fill_((sources_NP < 0)[:, None], 0).reshape(images_NCHW.shape)


def _looked_up(images_NCHW: Tensor, values_NCV: Tensor) -> Tensor:
    return values_NCV.gather(2, images_NCHW.flatten(2).long()).reshape(images_NCHW.shape)


def _grey(images_NCHW: Tensor, table: Tables) -> Tensor:
    """Luminance, truncated to whole numbers: (N, 1, H, W)."""
    if images_NCHW.shape[1] == 1:
        return images_NCHW
    red, green, blue = (table.grey_3V[c][images_NCHW[:, c].long()] for c in range(3))
    return (red + green + blue).to(torch.uint8)[:, None]


def _blended(images_NCHW: Tensor, others_NCHW: Tensor, signs_N: Tensor, table: Tables) -> Tensor:
    """A step beyond the image, away from or towards the other one; truncated to whole numbers."""
    own_NCHW = _looked_up_floats(table.own_2V[signs_N], images_NCHW)
    return (own_NCHW + _looked_up_floats(table.other_2V[signs_N], others_NCHW)).clamp_(0, 255).to(torch.uint8)


def _looked_up_floats(values_NV: Tensor, images_NCHW: Tensor) -> Tensor:
    return values_NV.gather(1, images_NCHW.flatten(1).long()).reshape(images_NCHW.shape)


def _soft(images_NCHW: Tensor) -> Tensor:
    """Each inner pixel the mean of itself, five-fold, and its eight neighbours; the border as it was."""
    whole = images_NCHW.int()
    across = whole[..., :-2] + whole[..., 1:-1] + whole[..., 2:]
    sums = across[..., :-2, :] + across[..., 1:-1, :] + across[..., 2:, :] + 4 * whole[..., 1:-1, 1:-1]
    result = images_NCHW.clone()
    result[..., 1:-1, 1:-1] = torch.div(2 * sums + 13, 26, rounding_mode="floor").to(torch.uint8)
    return result


def _stretched(images_NCHW: Tensor) -> Tensor:
    """Each channel's smallest value to 0 and its largest to 255: (N, C, V)."""
    values_V = torch.arange(256, dtype=torch.float32, device=images_NCHW.device)
    low_NC1, high_NC1 = (bound[..., None].float() for bound in torch.aminmax(images_NCHW.flatten(2), dim=2))
    flat_NC1 = low_NC1 == high_NC1
    scale_NC1 = torch.where(flat_NC1, 1.0, 255 / torch.where(flat_NC1, 1.0, high_NC1 - low_NC1))
    stretched_NCV = (values_V - torch.where(flat_NC1, 0.0, low_NC1)) * scale_NC1
    return stretched_NCV.clamp_(0, 255).to(torch.uint8)


def _equalised(images_NCHW: Tensor) -> Tensor:
    """Values that make each channel's histogram as level as can be: (N, C, V)."""
    flat_NCP = images_NCHW.flatten(2).long()
    counts_NCV = torch.zeros((*flat_NCP.shape[:2], 256), dtype=torch.int64, device=flat_NCP.device)
    counts_NCV.scatter_add_(2, flat_NCP, torch.ones_like(flat_NCP))
    largest_NC1 = flat_NCP.amax(2, keepdim=True)
    step_NC1 = (flat_NCP.shape[2] - counts_NCV.gather(2, largest_NC1)) // 255
    before_NCV = counts_NCV.cumsum(2) - counts_NCV
    levelled_NCV = ((before_NCV + step_NC1 // 2) // step_NC1.clamp(min=1)).clamp_(0, 255)
    levelled_NCV[..., 0] = 0
    unchanged_V = torch.arange(256, device=flat_NCP.device)
    return torch.where(step_NC1 == 0, unchanged_V, levelled_NCV).to(torch.uint8)
