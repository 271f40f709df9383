"""Presets of augmentation: pure functions of a batch of uint8 images and of parameters drawn for each image.

A preset is a list of stages. A stage turns uniform numbers into parameters and applies them; both are vectorised over
the batch, on any device, and every image draws its own.

Shapes: B images, C channels, H height, W width, K uniform numbers per image.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .catalogue import Constants, DatasetEntry
from .stages import (
    ColourJitter,
    GaussianBlur,
    HorizontalFlip,
    Occlusion,
    RandomGrey,
    RandomResizedCrop,
    ReflectPadCrop,
    Stage,
)

Drawn = tuple[tuple[Tensor, ...], ...]
"""For each stage its parameters, each with one row per image."""


@dataclass(frozen=True)
class Preset:
    """Stages on pixels in [0, 1], normalisation, and stages after it."""

    stages: tuple[Stage, ...] = ()
    divisor: float = 255.0
    """What pixels are divided by."""
    protocol: str | None = None
    """Whose normalisation constants of the data set are used; None: no normalisation."""
    stages_after: tuple[Stage, ...] = ()

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        return (*self.stages, *self.stages_after)

    @property
    def draws(self) -> int:
        """Uniform numbers per image."""
        return sum(stage.draws for stage in self.all_stages)

    def draw(self, uniforms_BK: NDArray[np.float64], height: int, width: int) -> Drawn:
        """The parameters of all stages for a batch of images of one size."""
        drawn, start = [], 0
        for stage in self.all_stages:
            numbers = uniforms_BK[:, start : start + stage.draws]
            drawn.append(stage.parameters(numbers, height, width))
            start += stage.draws
        return tuple(drawn)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "plain": Preset(),
        "plain_256": Preset(divisor=256.0),
        "amc_translate": Preset((ReflectPadCrop(2),), divisor=256.0),
        "cifar_eval": Preset(protocol="vmf"),
        "vmf_cifar": Preset((ReflectPadCrop(4), HorizontalFlip()), protocol="vmf", stages_after=(Occlusion(),)),
        "dsf_cifar_no_randaugment": Preset(
            (
                RandomResizedCrop(scale=(0.2, 1.0)),
                ColourJitter(0.4, 0.4, 0.4, 0.1, probability=0.8),
                RandomGrey(0.2),
                GaussianBlur((0.1, 2.0), probability=0.5),
                HorizontalFlip(),
            ),
            protocol="dsf",
        ),
        "dsf_cifar_eval": Preset(protocol="dsf"),
    }
)
"""Name -> preset; the papers' training and evaluation transforms."""


def preset(name: str, dataset: DatasetEntry) -> tuple[Preset, Constants | None]:
    """A preset and the constants it normalises images of a data set with.

    Raises:
        ValueError: no such preset (the message names the nearest), or the data set has no constants for it.
    """
    if name not in PRESETS:
        near = difflib.get_close_matches(name.replace("-", "_"), PRESETS, n=3) or list(PRESETS)
        raise ValueError(f'unknown preset "{name}"; nearest: {", ".join(near)}')
    found = PRESETS[name]
    return found, dataset.constants(found.protocol) if found.protocol is not None else None


def augment(images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn) -> Tensor:
    """Applies a preset: uint8 (B, H, W, C) -> float32 (B, C, H, W), freshly allocated, on the same device.

    On CPU tensors, crop, flip and normalisation run as one compiled pass; `reference` defines what they give.
    """
    if images_BHWC.device.type != "cpu" or not _is_crop_and_flip(preset.stages):
        return reference(images_BHWC, preset, constants, drawn)
    from .kernels import crop_flip_look_up

    (rows_B, columns_B), flips = drawn[0], drawn[1 : len(preset.stages)]
    flip_B = flips[0][0] if flips else torch.zeros(len(images_BHWC), dtype=torch.bool)
    crop = preset.stages[0]
    assert isinstance(crop, ReflectPadCrop)
    table_CV = _value_table(images_BHWC.shape[-1], preset, constants)
    images_BCHW = crop_flip_look_up(images_BHWC, table_CV, crop.padding, rows_B, columns_B, flip_B)
    return _apply(images_BCHW, preset.stages_after, drawn[len(preset.stages) :])


def reference(images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn) -> Tensor:
    """What `augment` computes, stage by stage in torch."""
    images_BCHW = images_BHWC.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    images_BCHW = _apply(images_BCHW.div_(preset.divisor), preset.stages, drawn[: len(preset.stages)])
    images_BCHW = _normalised(images_BCHW, constants)
    return _apply(images_BCHW, preset.stages_after, drawn[len(preset.stages) :])


def _apply(images_BCHW: Tensor, stages: tuple[Stage, ...], drawn: Drawn) -> Tensor:
    for stage, parameters in zip(stages, drawn, strict=True):
        images_BCHW = stage.apply(images_BCHW, *parameters)
    return images_BCHW


def _normalised(images_BCHW: Tensor, constants: Constants | None) -> Tensor:
    if constants is None:
        return images_BCHW
    mean_C11, std_C11 = (
        torch.tensor(numbers, dtype=torch.float32, device=images_BCHW.device)[:, None, None] for numbers in constants
    )
    return (images_BCHW - mean_C11).div_(std_C11)


def _is_crop_and_flip(stages: tuple[Stage, ...]) -> bool:
    """Whether the stages only move pixels, so that values can be looked up in a table of 256."""
    kinds = tuple(type(stage) for stage in stages)
    return kinds in ((ReflectPadCrop,), (ReflectPadCrop, HorizontalFlip))


def _value_table(channels: int, preset: Preset, constants: Constants | None) -> Tensor:
    """What each of the 256 pixel values becomes in each channel: (C, 256)."""
    values_V11C = torch.arange(256, dtype=torch.uint8)[:, None, None, None].expand(256, 1, 1, channels)
    plain = Preset(divisor=preset.divisor)
    return reference(values_V11C, plain, constants, ())[:, :, 0, 0].T.contiguous()
