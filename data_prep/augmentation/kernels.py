"""Compiled passes over batches on the CPU, one per stage; compiled once per installation, then loaded from disk.

Each gives what the stage's torch reference gives, to rounding. Those that take float images change them in place.
Shapes: B images, C channels, H height, W width, P = H W pixels, V = 256 values, K weights.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

_ZERO, _ONE, _TWO, _FOUR, _SIX = (np.float32(number) for number in (0, 1, 2, 4, 6))
_RED, _GREEN, _BLUE = (np.float32(share) for share in (0.2989, 0.587, 0.114))
_SIXTH = np.float32(1 / 6)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """numba's njit, which keeps what it compiled on disk."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(function, cache=True, nogil=True, **options)
        except RuntimeError:  # nowhere to keep the compiled code: compile it in every process
            return numba.njit(function, nogil=True, **options)

    return decorate


def crop_flip_look_up(
    images_BHWC: Tensor,
    table_CV: Tensor,
    padding: int,
    rows_B: Tensor,
    columns_B: Tensor,
    flip_B: Tensor,
    squares_B4: Tensor,
) -> Tensor:
    """Reflect-pads, crops, mirrors, looks every value up and sets a square to zero: float32 (B, C, H, W).

    Args:
        images_BHWC: uint8, on the CPU.
        table_CV: what each of the 256 values becomes in each channel.
        rows_B, columns_B: the window's corner in the padded image, 0..2 padding.
        squares_B4: top, left, height and width.
    """
    batch, height, width, channels = images_BHWC.shape
    result_BCHW = empty(batch, channels, height, width)
    _move_pixels(padding, *_arrays(images_BHWC, table_CV, rows_B, columns_B, flip_B, squares_B4, result_BCHW))
    return result_BCHW


def floats(images_BHWC: Tensor, divisor: float) -> Tensor:
    """Divides uint8 images: float32 (B, C, H, W)."""
    batch, height, width, channels = images_BHWC.shape
    result_BCHW = torch.empty((batch, channels, height, width))
    _to_floats(*_arrays(images_BHWC, result_BCHW), np.float32(divisor))
    return result_BCHW


def crop_and_resize(images_BCHW: Tensor, windows: tuple[Tensor, ...], size: tuple[int, int]) -> Tensor:
    """Cuts windows (top, left, height, width: B each) and resizes them: float32 (B, C, *size)."""
    result_BCHW = torch.empty((*images_BCHW.shape[:2], *size))
    _crop_and_resize(*_arrays(images_BCHW, *windows, result_BCHW))
    return result_BCHW


def jitter(images_BCHW: Tensor, applied_B: Tensor, order_B4: Tensor, factors_B4: Tensor) -> None:
    """Brightness, contrast, saturation and hue in each image's own order."""
    _jitter(*_arrays(images_BCHW.flatten(2), applied_B, order_B4, factors_B4))


def grey(images_BCHW: Tensor, grey_B: Tensor) -> None:
    """Luminance in all channels of some images."""
    if images_BCHW.shape[1] == 3:
        _grey(*_arrays(images_BCHW.flatten(2), grey_B))


def blur(images_BCHW: Tensor, applied_B: Tensor, weights_BK: Tensor) -> None:
    """Convolves rows and columns with symmetric weights (the central one first), with reflected borders."""
    _blur(*_arrays(images_BCHW, applied_B, weights_BK))


def solarise(images_BCHW: Tensor, applied_B: Tensor, threshold: float) -> None:
    """Inverts values from the threshold on."""
    _solarise(*_arrays(images_BCHW.flatten(1), applied_B), np.float32(threshold))


def flip_and_normalise(images_BCHW: Tensor, flip_B: Tensor, mean_C: Tensor, std_C: Tensor, result_BCHW: Tensor) -> None:
    """Mirrors some images, subtracts each channel's mean, divides by its standard deviation; writes to the result."""
    _flip_and_normalise(*_arrays(images_BCHW, flip_B, mean_C, std_C, result_BCHW))


def empty(*shape: int) -> Tensor:
    """An uninitialised float32 tensor; numpy asks for huge pages, without which first touches are the dearest part."""
    return torch.from_numpy(np.empty(shape, np.float32))


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.numpy() for tensor in tensors)


@compiled()
def _move_pixels(
    padding: int,
    images_BHWC: Any,
    table_CV: Any,
    rows_B: Any,
    columns_B: Any,
    flip_B: Any,
    squares_B4: Any,
    result_BCHW: Any,
) -> None:
    batch, height, width, channels = images_BHWC.shape
    source_W = np.empty(width, np.int64)
    for b in range(batch):
        for x in range(width):
            column = abs((width - 1 - x if flip_B[b] else x) + columns_B[b] - padding)
            source_W[x] = width - 1 - abs(width - 1 - column)
        top, left, tall, wide = squares_B4[b]
        for y in range(height):
            row = abs(y + rows_B[b] - padding)
            row = height - 1 - abs(height - 1 - row)
            hidden = top <= y < top + tall
            for c in range(channels):
                for x in range(width):
                    result_BCHW[b, c, y, x] = table_CV[c, images_BHWC[b, row, source_W[x], c]]
                if hidden:
                    result_BCHW[b, c, y, left : left + wide] = _ZERO


@compiled()
def _to_floats(images_BHWC: Any, result_BCHW: Any, divisor: Any) -> None:
    batch, height, width, channels = images_BHWC.shape
    for b in range(batch):
        image_D = images_BHWC[b].reshape(height * width * channels)
        result_CP = result_BCHW[b].reshape(channels, height * width)
        if channels == 3:  # spelt out, which is eight times as fast
            for p in range(height * width):
                result_CP[0, p] = np.float32(image_D[3 * p]) / divisor
                result_CP[1, p] = np.float32(image_D[3 * p + 1]) / divisor
                result_CP[2, p] = np.float32(image_D[3 * p + 2]) / divisor
        else:
            for p in range(height * width):
                for c in range(channels):
                    result_CP[c, p] = np.float32(image_D[p * channels + c]) / divisor


@compiled()
def _resize_weights(length: int, target: int, first_T: Any, weights_KT: Any) -> int:
    """The rows of resampling.crop_and_resize_matrix without most of their zeros; returns how many weights count."""
    step = length / target
    reach = max(step, 1.0)
    most = 1
    weights_KT[:] = 0
    for t in range(target):
        centre = (t + 0.5) * step
        first = max(0, int(np.floor(centre - reach + 0.5)))
        last = min(length - 1, int(np.ceil(centre + reach - 0.5)))
        while abs(first + 0.5 - centre) >= reach:
            first += 1
        while abs(last + 0.5 - centre) >= reach:
            last -= 1
        total = 0.0
        for pixel in range(first, last + 1):
            total += 1 - abs(pixel + 0.5 - centre) / reach
        for pixel in range(first, last + 1):
            weights_KT[pixel - first, t] = (1 - abs(pixel + 0.5 - centre) / reach) / total
        first_T[t] = first
        most = max(most, last - first + 1)
    return most


@compiled(fastmath=True)
def _crop_and_resize(images_BCHW: Any, top_B: Any, left_B: Any, height_B: Any, width_B: Any, result_BCHW: Any) -> None:
    batch, channels, height, width = images_BCHW.shape
    rows, columns = result_BCHW.shape[2:]
    # Unsigned, because only indices that cannot be negative are vectorised.
    first_H, first_W = np.empty(rows, np.int64), np.empty(columns, np.uint64)
    weights_KH = np.empty((2 * (height // rows) + 5, rows), np.float32)
    weights_KW = np.empty((2 * (width // columns) + 5, columns), np.float32)
    # Weights of zero may reach beyond the window.
    line = np.zeros(width + len(weights_KW), np.float32)
    for b in range(batch):
        tall = _resize_weights(height_B[b], rows, first_H, weights_KH)
        wide = _resize_weights(width_B[b], columns, first_W, weights_KW)
        for c in range(channels):
            window_HW = images_BCHW[b, c, top_B[b] :, left_B[b] : left_B[b] + width_B[b]]
            for y in range(rows):
                for k in range(tall):
                    weight = weights_KH[k, y]
                    if k == 0:
                        _set(line, weight, window_HW[first_H[y]])
                    elif weight > _ZERO:
                        _add(line, weight, window_HW[first_H[y] + k])
                row_W = result_BCHW[b, c, y]
                next_line = line[1:]
                for x in range(columns):
                    place = first_W[x]
                    row_W[x] = weights_KW[0, x] * line[place] + weights_KW[1, x] * next_line[place]
                for k in range(2, wide):
                    next_line = line[k:]
                    for x in range(columns):
                        row_W[x] += weights_KW[k, x] * next_line[first_W[x]]


@compiled(fastmath=True)
def _set(line: Any, weight: Any, row_W: Any) -> None:
    for x in range(len(row_W)):
        line[x] = weight * row_W[x]


@compiled(fastmath=True)
def _add(line: Any, weight: Any, row_W: Any) -> None:
    for x in range(len(row_W)):
        line[x] += weight * row_W[x]


@compiled(fastmath=True)
def _clamped(value: Any) -> Any:
    return min(max(value, _ZERO), _ONE)


@compiled(fastmath=True)
def _blend_with_mean(image_CP: Any, factor: Any) -> None:
    channels, pixels = image_CP.shape
    total = 0.0
    if channels == 3:
        for p in range(pixels):
            total += _RED * image_CP[0, p] + _GREEN * image_CP[1, p] + _BLUE * image_CP[2, p]
    else:
        for p in range(pixels):
            total += image_CP[0, p]
    rest = (_ONE - factor) * np.float32(total / pixels)
    for c in range(channels):
        for p in range(pixels):
            image_CP[c, p] = _clamped(factor * image_CP[c, p] + rest)


@compiled(fastmath=True)
def _blend_with_grey(image_CP: Any, factor: Any) -> None:
    for p in range(image_CP.shape[1]):
        red, green, blue = image_CP[0, p], image_CP[1, p], image_CP[2, p]
        rest = (_ONE - factor) * (_RED * red + _GREEN * green + _BLUE * blue)
        image_CP[0, p] = _clamped(factor * red + rest)
        image_CP[1, p] = _clamped(factor * green + rest)
        image_CP[2, p] = _clamped(factor * blue + rest)


@compiled(fastmath=True)
def _channel_of_hue(place: Any, largest: Any, spread: Any) -> Any:
    """A channel falls below the largest where the hue is far from its own; places on the circle are 0..6."""
    place -= _SIX * np.floor(place * _SIXTH)
    return largest - spread * _clamped(min(place, _FOUR - place))


@compiled(fastmath=True)
def _turn_hue(image_CP: Any, turn: Any) -> None:
    for p in range(image_CP.shape[1]):
        red, green, blue = image_CP[0, p], image_CP[1, p], image_CP[2, p]
        largest, smallest = max(red, green, blue), min(red, green, blue)
        spread = largest - smallest
        inverse = _ONE / (spread if spread > _ZERO else _ONE)
        sector = _FOUR + (red - green) * inverse
        sector = _TWO + (blue - red) * inverse if largest == green else sector
        sector = (green - blue) * inverse if largest == red else sector
        sector += _SIX * turn
        image_CP[0, p] = _channel_of_hue(sector + np.float32(5), largest, spread)
        image_CP[1, p] = _channel_of_hue(sector + np.float32(3), largest, spread)
        image_CP[2, p] = _channel_of_hue(sector + np.float32(1), largest, spread)


@compiled(fastmath=True)
def _jitter(images_BCP: Any, applied_B: Any, order_B4: Any, factors_B4: Any) -> None:
    batch, channels, pixels = images_BCP.shape
    for b in range(batch):
        if applied_B[b]:
            for operation in order_B4[b]:
                factor = factors_B4[b, operation]
                if operation == 0:
                    for c in range(channels):
                        for p in range(pixels):
                            images_BCP[b, c, p] = _clamped(images_BCP[b, c, p] * factor)
                elif operation == 1:
                    _blend_with_mean(images_BCP[b], factor)
                elif channels == 3 and operation == 2:
                    _blend_with_grey(images_BCP[b], factor)
                elif channels == 3:
                    _turn_hue(images_BCP[b], factor)


@compiled(fastmath=True)
def _grey(images_BCP: Any, grey_B: Any) -> None:
    for b in range(len(images_BCP)):
        if grey_B[b]:
            for p in range(images_BCP.shape[2]):
                red, green, blue = images_BCP[b, 0, p], images_BCP[b, 1, p], images_BCP[b, 2, p]
                images_BCP[b, :, p] = _RED * red + _GREEN * green + _BLUE * blue


@compiled(fastmath=True)
def _blur(images_BCHW: Any, applied_B: Any, weights_BK: Any) -> None:
    batch, channels, height, width = images_BCHW.shape
    across, down = min(weights_BK.shape[1], width) - 1, min(weights_BK.shape[1], height) - 1
    # Room for whole groups of three weights; the last may be zeros.
    room = (weights_BK.shape[1] + 1) // 3 * 3
    line = np.zeros(width + 2 * room, np.float32)
    padded_D = np.zeros((height + 2 * room) * width, np.float32)
    weights_W, weights_H = np.zeros(room + 1, np.float32), np.zeros(room + 1, np.float32)
    for b in range(batch):
        if not applied_B[b]:
            continue
        _normalised(weights_BK[b], across, weights_W)
        _normalised(weights_BK[b], down, weights_H)
        for c in range(channels):
            for y in range(height):
                row_W = images_BCHW[b, c, y]
                line[room : room + width] = row_W
                for x in range(1, across + 1):
                    line[room - x] = row_W[x]
                    line[room + width - 1 + x] = row_W[width - 1 - x]
                start = (room + y) * width
                _convolve(line, 1, weights_W, padded_D[start : start + width])
            first, last = room * width, (room + height - 1) * width
            for y in range(1, down + 1):
                below, above = first + y * width, last - y * width
                padded_D[first - y * width : first - (y - 1) * width] = padded_D[below : below + width]
                padded_D[last + y * width : last + (y + 1) * width] = padded_D[above : above + width]
            _convolve(padded_D, width, weights_H, images_BCHW[b, c].reshape(height * width))


@compiled(fastmath=True)
def _normalised(weights_K: Any, radius: int, result_K: Any) -> None:
    total = weights_K[0] + _TWO * weights_K[1 : radius + 1].sum()
    for k in range(radius + 1):
        result_K[k] = weights_K[k] / total


@compiled(fastmath=True)
def _convolve(padded_D: Any, step: int, weights_K: Any, result_P: Any) -> None:
    """Symmetric weights, `step` values apart, in groups of three: fewer passes over the result."""
    size, middle = len(result_P), (len(padded_D) - len(result_P)) // 2
    centre = padded_D[middle:]
    for p in range(size):
        result_P[p] = weights_K[0] * centre[p]
    for k in range(1, len(weights_K), 3):
        one, two, three = weights_K[k], weights_K[k + 1], weights_K[k + 2]
        if one == _ZERO:
            break
        # Slices, because only indices that cannot be negative are vectorised.
        left_one, right_one = padded_D[middle - k * step :], padded_D[middle + k * step :]
        left_two, right_two = padded_D[middle - (k + 1) * step :], padded_D[middle + (k + 1) * step :]
        left_three, right_three = padded_D[middle - (k + 2) * step :], padded_D[middle + (k + 2) * step :]
        for p in range(size):
            nearer = one * (left_one[p] + right_one[p]) + two * (left_two[p] + right_two[p])
            result_P[p] += nearer + three * (left_three[p] + right_three[p])


@compiled(fastmath=True)
def _solarise(images_BD: Any, applied_B: Any, threshold: Any) -> None:
    for b in range(len(images_BD)):
        if applied_B[b]:
            for d in range(images_BD.shape[1]):
                value = images_BD[b, d]
                images_BD[b, d] = _ONE - value if value >= threshold else value


@compiled(fastmath=True)
def _flip_and_normalise(images_BCHW: Any, flip_B: Any, mean_C: Any, std_C: Any, result_BCHW: Any) -> None:
    batch, channels, height, width = images_BCHW.shape
    for b in range(batch):
        for c in range(channels):
            mean, scale = mean_C[c], _ONE / std_C[c]
            for y in range(height):
                if flip_B[b]:
                    for x in range(width):
                        result_BCHW[b, c, y, x] = (images_BCHW[b, c, y, width - 1 - x] - mean) * scale
                else:
                    for x in range(width):
                        result_BCHW[b, c, y, x] = (images_BCHW[b, c, y, x] - mean) * scale
