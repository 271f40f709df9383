"""The compiled pass for augmentations that only move pixels; compiled once per installation, then loaded from disk."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


def crop_flip_look_up(
    images_BHWC: Tensor, table_CV: Tensor, padding: int, rows_B: Tensor, columns_B: Tensor, flip_B: Tensor
) -> Tensor:
    """Reflect-pads, crops at (row, column), mirrors where `flip` and looks every value up: float32 (B, C, H, W).

    Args:
        images_BHWC: uint8, on the CPU.
        table_CV: what each of the 256 values becomes in each channel.
        rows_B, columns_B: the window's corner in the padded image, 0..2 padding.
    """
    batch, height, width, channels = images_BHWC.shape
    result_BCHW = torch.empty((batch, channels, height, width))
    arrays = (tensor.numpy() for tensor in (images_BHWC, table_CV, rows_B, columns_B, flip_B, result_BCHW))
    _compiled()(padding, *arrays)
    return result_BCHW


@cache
def _compiled() -> Callable[..., None]:
    import numba

    try:
        return numba.njit(_move_pixels, cache=True, nogil=True)
    except RuntimeError:  # nowhere to keep the compiled code: compile it in every process
        return numba.njit(_move_pixels, nogil=True)


def _move_pixels(
    padding: int, images_BHWC: Any, table_CV: Any, rows_B: Any, columns_B: Any, flip_B: Any, result_BCHW: Any
) -> None:
    batch, height, width, channels = images_BHWC.shape
    source_W = np.empty(width, np.int64)
    for b in range(batch):
        for x in range(width):
            column = abs((width - 1 - x if flip_B[b] else x) + columns_B[b] - padding)
            source_W[x] = width - 1 - abs(width - 1 - column)
        for c in range(channels):
            for y in range(height):
                row = abs(y + rows_B[b] - padding)
                row = height - 1 - abs(height - 1 - row)
                for x in range(width):
                    result_BCHW[b, c, y, x] = table_CV[c, images_BHWC[b, row, source_W[x], c]]
