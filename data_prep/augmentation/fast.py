"""A preset on the CPU as a few compiled passes; data_prep.augment.reference defines what it gives."""

import torch
from torch import Tensor

from ..augment import Drawn, Preset, reference
from ..catalogue import Constants
from . import kernels
from .randaugment import RandAugment
from .randaugment_kernel import randaugment
from .stages import (
    ColourJitter,
    GaussianBlur,
    HorizontalFlip,
    Occlusion,
    RandomGrey,
    RandomResizedCrop,
    ReflectPadCrop,
    Solarise,
    Stage,
)

_VALUES_AT_ONCE = 1 << 17
"""So few that they stay in a core's cache from one pass to the next."""


def augment(images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn) -> Tensor:
    """As data_prep.augment.augment, for CPU tensors."""
    images_BHWC = images_BHWC.contiguous()  # otherwise the passes would be compiled again
    batch, height, width, channels = images_BHWC.shape
    if preset.all_stages and _only_moves_pixels(preset):
        return _moved(images_BHWC, preset, constants, drawn)
    result_BCHW = kernels.empty(batch, channels, *preset.result_size(height, width))
    step = max(1, _VALUES_AT_ONCE // (height * width * channels))
    for start in range(0, batch, step):
        part = slice(start, start + step)
        some = tuple(tuple(parameter[part] for parameter in parameters) for parameters in drawn)
        if preset.all_stages:
            _change(images_BHWC[part], preset, constants, some, result_BCHW[part])
        else:
            _normalise(images_BHWC[part], preset.divisor, constants, result_BCHW[part])
    return result_BCHW


def _normalise(images_BHWC: Tensor, divisor: float, constants: Constants | None, result_BCHW: Tensor) -> None:
    """In torch, because it takes numba half a second to wake up, which evaluation should not wait for."""
    result_BCHW.copy_(images_BHWC.permute(0, 3, 1, 2)).div_(divisor)
    if constants is not None:
        mean_C11, std_C11 = (torch.tensor(numbers)[:, None, None] for numbers in constants)
        result_BCHW.sub_(mean_C11).div_(std_C11)


def _change(
    images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn, result_BCHW: Tensor
) -> None:
    before = list(zip(preset.stages, drawn[: len(preset.stages)], strict=True))
    flip_B = torch.zeros(len(images_BHWC), dtype=torch.bool)
    if before and isinstance(before[-1][0], HorizontalFlip):
        (flip_B,) = before.pop()[1]
    images_BCHW = kernels.floats(images_BHWC, preset.divisor)
    for stage, parameters in before:
        images_BCHW = _changed(images_BCHW, stage, parameters)
    channels = images_BCHW.shape[1]
    mean_C, std_C = (torch.tensor(numbers) for numbers in constants or ((0.0,) * channels, (1.0,) * channels))
    kernels.flip_and_normalise(images_BCHW, flip_B, mean_C, std_C, result_BCHW)
    images_BCHW = result_BCHW
    for stage, parameters in zip(preset.stages_after, drawn[len(preset.stages) :], strict=True):
        images_BCHW = stage.apply(images_BCHW, *parameters)
    if images_BCHW is not result_BCHW:
        result_BCHW.copy_(images_BCHW)


def _changed(images_BCHW: Tensor, stage: Stage, parameters: tuple[Tensor, ...]) -> Tensor:
    """One stage by its compiled pass, where there is one; most change the images in place."""
    match stage:
        case RandomResizedCrop():
            return kernels.crop_and_resize(images_BCHW, parameters, stage.result_size(*images_BCHW.shape[2:]))
        case ColourJitter():
            kernels.jitter(images_BCHW, *parameters)
        case RandomGrey():
            kernels.grey(images_BCHW, *parameters)
        case GaussianBlur():
            applied_B, sigma_B = parameters
            offsets_K = torch.arange(stage.radius + 1)
            kernels.blur(images_BCHW, applied_B, torch.exp(-0.5 * (offsets_K / sigma_B[:, None]) ** 2))
        case Solarise():
            (applied_B,) = parameters
            kernels.solarise(images_BCHW, applied_B, stage.threshold)
        case RandAugment():
            randaugment(images_BCHW, *parameters)
        case _:
            return stage.apply(images_BCHW, *parameters)
    return images_BCHW


def _only_moves_pixels(preset: Preset) -> bool:
    """Whether values can be looked up in a table of 256, in one pass with all stages."""
    kinds = [type(stage) for stage in preset.all_stages]
    return kinds == [kind for kind in (ReflectPadCrop, HorizontalFlip, Occlusion) if kind in kinds] and all(
        isinstance(stage, Occlusion) for stage in preset.stages_after
    )


def _moved(images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn) -> Tensor:
    batch, channels = len(images_BHWC), images_BHWC.shape[-1]
    padding = 0
    rows_B, columns_B = torch.zeros((2, batch), dtype=torch.int64)
    flip_B = torch.zeros(batch, dtype=torch.bool)
    squares_B4 = torch.zeros((batch, 4), dtype=torch.int64)
    for stage, parameters in zip(preset.all_stages, drawn, strict=True):
        match stage:
            case ReflectPadCrop():
                padding, (rows_B, columns_B) = stage.padding, parameters
            case HorizontalFlip():
                (flip_B,) = parameters
            case Occlusion():
                squares_B4 = torch.stack(parameters, 1)
    values_V11C = torch.arange(256, dtype=torch.uint8)[:, None, None, None].expand(256, 1, 1, channels)
    table_CV = reference(values_V11C, Preset(divisor=preset.divisor), constants, ())[:, :, 0, 0].T.contiguous()
    return kernels.crop_flip_look_up(images_BHWC, table_CV, padding, rows_B, columns_B, flip_B, squares_B4)
