"""RandAugment as one compiled pass over a batch on the CPU; gives exactly what `randaugment` gives.

Arithmetic is in float32, step by step as in torch: without the liberties of fast mathematics.
Shapes: as in data_prep.augmentation.randaugment.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .kernels import compiled
from .randaugment import UPWARDS, tables

_ZERO, _ONE, _BYTE, _UPWARDS = np.float32(0), np.float32(1), np.float32(255), np.float32(UPWARDS)


def randaugment(images_BCHW: Tensor, applied_B: Tensor, numbers_BO: Tensor, negative_BO: Tensor) -> None:
    """Changes float images in [0, 1] in place; parameters are those of `RandAugment`."""
    height, width = images_BCHW.shape[-2:]
    tensors = (images_BCHW.flatten(2), applied_B, numbers_BO, negative_BO, *tables(height, width, torch.device("cpu")))
    _randaugment(width, *(tensor.numpy() for tensor in tensors))


@compiled()
def _randaugment(
    width: int,
    images_BCP: Any,
    applied_B: Any,
    numbers_BO: Any,
    negative_BO: Any,
    sources_52P: Any,
    values_32V: Any,
    own_2V: Any,
    other_2V: Any,
    rest_2: Any,
    grey_3V: Any,
) -> None:
    batch, channels, pixels = images_BCP.shape
    image_CP, other_CP = np.empty((channels, pixels), np.uint8), np.empty((channels, pixels), np.uint8)
    grey_P = np.empty(pixels, np.uint8)
    values_V = np.empty(256, np.uint8)
    back_V = np.arange(256).astype(np.float32) / _BYTE
    for b in range(batch):
        if not applied_B[b]:
            continue
        for c in range(channels):
            for p in range(pixels):
                image_CP[c, p] = np.uint8(min(max(np.rint(images_BCP[b, c, p] * _BYTE + _UPWARDS), _ZERO), _BYTE))
        for place in range(numbers_BO.shape[1]):
            number, sign = numbers_BO[b, place], 1 if negative_BO[b, place] else 0
            if 1 <= number <= 5:
                for c in range(channels):
                    for p in range(pixels):
                        source = sources_52P[number - 1, sign, p]
                        other_CP[c, p] = image_CP[c, source] if source >= 0 else np.uint8(0)
                image_CP, other_CP = other_CP, image_CP
            elif number == 6 or number == 10 or number == 11:
                values = values_32V[0 if number == 6 else number - 9, sign]
                for c in range(channels):
                    _look_up(image_CP[c], values)
            elif number == 7 and channels == 3:
                _grey(image_CP, grey_3V, grey_P)
                for c in range(3):
                    _blend(image_CP[c], grey_P, own_2V[sign], other_2V[sign])
            elif number == 8:
                total = 0
                if channels == 3:
                    _grey(image_CP, grey_3V, grey_P)
                    for p in range(pixels):
                        total += grey_P[p]
                else:
                    for p in range(pixels):
                        total += image_CP[0, p]
                rest = rest_2[sign] * (np.float32(total) / np.float32(pixels))
                for v in range(256):
                    values_V[v] = np.uint8(min(max(own_2V[sign, v] + rest, _ZERO), _BYTE))
                for c in range(channels):
                    _look_up(image_CP[c], values_V)
            elif number == 9 and width > 2 and pixels // width > 2:
                for c in range(channels):
                    _soften(image_CP[c], width, grey_P)
                    _blend(image_CP[c], grey_P, own_2V[sign], other_2V[sign])
            elif number == 12:
                for c in range(channels):
                    if _stretch(image_CP[c], values_V):
                        _look_up(image_CP[c], values_V)
            elif number == 13:
                for c in range(channels):
                    if _equalise(image_CP[c], values_V):
                        _look_up(image_CP[c], values_V)
        for c in range(channels):
            for p in range(pixels):
                images_BCP[b, c, p] = back_V[image_CP[c, p]]


@compiled()
def _look_up(image_P: Any, values_V: Any) -> None:
    for p in range(len(image_P)):
        image_P[p] = values_V[image_P[p]]


@compiled()
def _grey(image_CP: Any, grey_3V: Any, result_P: Any) -> None:
    for p in range(len(result_P)):
        red_and_green = grey_3V[0, image_CP[0, p]] + grey_3V[1, image_CP[1, p]]
        result_P[p] = np.uint8(red_and_green + grey_3V[2, image_CP[2, p]])


@compiled()
def _blend(image_P: Any, others_P: Any, own_V: Any, other_V: Any) -> None:
    for p in range(len(image_P)):
        image_P[p] = np.uint8(min(max(own_V[image_P[p]] + other_V[others_P[p]], _ZERO), _BYTE))


@compiled()
def _soften(image_P: Any, width: int, result_P: Any) -> None:
    """Inner pixels: the rounded mean of the pixel, five-fold, and its eight neighbours."""
    result_P[:] = image_P
    for y in range(1, len(image_P) // width - 1):
        here = y * width
        for x in range(1, width - 1):
            total = np.int32(4) * image_P[here + x]
            for start in (here - width, here, here + width):
                total += np.int32(image_P[start + x - 1]) + image_P[start + x] + image_P[start + x + 1]
            result_P[here + x] = np.uint8((2 * total + 13) // 26)


@compiled()
def _stretch(image_P: Any, values_V: Any) -> bool:
    """The table of values that stretches a channel to 0..255; whether there is anything to stretch."""
    low, high = image_P.min(), image_P.max()
    if low == high:
        return False
    scale = (_ONE / (np.float32(high) - np.float32(low))) * _BYTE  # as torch divides a number by a tensor
    for v in range(256):
        values_V[v] = np.uint8(min(max((np.float32(v) - np.float32(low)) * scale, _ZERO), _BYTE))
    return True


@compiled()
def _equalise(image_P: Any, values_V: Any) -> bool:
    """The table of values that levels a channel's histogram; whether it has enough pixels for it."""
    counts_V = np.zeros(256, np.int64)
    for p in range(len(image_P)):
        counts_V[image_P[p]] += 1
    step = (len(image_P) - counts_V[image_P.max()]) // 255
    if step == 0:
        return False
    before = 0
    for v in range(256):
        values_V[v] = np.uint8(min((before + step // 2) // step, 255)) if v else np.uint8(0)
        before += counts_V[v]
    return True
