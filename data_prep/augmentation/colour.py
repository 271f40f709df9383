"""Colour operations on batches (B, C, H, W) in [0, 1], C = 1 or 3, with one factor per image (B,)."""

import torch
from torch import Tensor

_LUMINANCE = (0.2989, 0.587, 0.114)


def luminance(images_BCHW: Tensor) -> Tensor:
    """The grey image: (B, 1, H, W)."""
    if images_BCHW.shape[1] == 1:
        return images_BCHW
    red, green, blue = images_BCHW.unbind(1)
    return (_LUMINANCE[0] * red + _LUMINANCE[1] * green + _LUMINANCE[2] * blue)[:, None]


def brightness(images_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    """Multiplies pixels; 1 leaves them."""
    return (images_BCHW * factor_B[:, None, None, None]).clamp_(0, 1)


def contrast(images_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    """Stretches pixels away from the image's mean luminance; 1 leaves them."""
    mean_B111 = luminance(images_BCHW).mean(dim=(1, 2, 3), keepdim=True)
    return _blended(images_BCHW, mean_B111, factor_B)


def saturation(images_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    """Stretches colours away from grey; 1 leaves them."""
    if images_BCHW.shape[1] == 1:
        return images_BCHW
    return _blended(images_BCHW, luminance(images_BCHW), factor_B)


def hue(images_BCHW: Tensor, turn_B: Tensor) -> Tensor:
    """Turns the colour circle by a share of a full turn in [-0.5, 0.5]; 0 leaves them."""
    if images_BCHW.shape[1] == 1:
        return images_BCHW
    hue_BHW, saturation_BHW, value_BHW = _to_hsv(images_BCHW)
    return _from_hsv((hue_BHW + turn_B[:, None, None]) % 1.0, saturation_BHW, value_BHW)


def _blended(images_BCHW: Tensor, other: Tensor, factor_B: Tensor) -> Tensor:
    factor_B111 = factor_B[:, None, None, None]
    return (factor_B111 * images_BCHW + (1 - factor_B111) * other).clamp_(0, 1)


def _to_hsv(images_BCHW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    red, green, blue = images_BCHW.unbind(1)
    largest, smallest = images_BCHW.amax(1), images_BCHW.amin(1)
    spread = largest - smallest
    is_grey = spread == 0
    saturation = spread / torch.where(is_grey, 1.0, largest)
    divisor = torch.where(is_grey, 1.0, spread)
    red_gap, green_gap, blue_gap = ((largest - channel) / divisor for channel in (red, green, blue))
    sector = torch.where(
        largest == red,
        blue_gap - green_gap,
        torch.where(largest == green, 2.0 + red_gap - blue_gap, 4.0 + green_gap - red_gap),
    )
    return (sector / 6.0 + 1.0) % 1.0, saturation, largest


def _from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Each channel falls from the value by the saturation where the hue is far from its own."""
    channels = []
    for shift in (5.0, 3.0, 1.0):
        k = (shift + hue * 6.0) % 6.0
        channels.append(value - value * saturation * torch.minimum(k, 4.0 - k).clamp_(0, 1))
    return torch.stack(channels, 1).clamp_(0, 1)
