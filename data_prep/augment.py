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

from .augmentation.geometry import CentreCrop, Geometry, WindowResize
from .augmentation.randaugment import RandAugment
from .augmentation.stages import (
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
from .catalogue import IMAGENET_CONSTANTS, Constants, DatasetEntry

Drawn = tuple[tuple[Tensor, ...], ...]
"""For each stage its parameters, each with one row per image."""


@dataclass(frozen=True)
class Preset:
    """Geometry, stages on pixels in [0, 1], normalisation, and stages after it."""

    stages: tuple[Stage, ...] = ()
    divisor: float = 255.0
    """What pixels are divided by."""
    protocol: str | None = None
    """Whose normalisation constants are used: "imagenet", or a protocol of the data set; None: no normalisation."""
    stages_after: tuple[Stage, ...] = ()
    geometry: Geometry | None = None
    """What the loader does to images of any size first; None: they are all of one size."""

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        return (*self.stages, *self.stages_after)

    @property
    def draws(self) -> int:
        """Uniform numbers per image that the stages need; the geometry's are its own."""
        return sum(stage.draws for stage in self.all_stages)

    def draw(self, uniforms_BK: NDArray[np.float64], height: int, width: int) -> Drawn:
        """The parameters of all stages for a batch of images of one size."""
        drawn, start = [], 0
        for stage in self.all_stages:
            numbers = uniforms_BK[:, start : start + stage.draws]
            drawn.append(stage.parameters(numbers, height, width))
            start += stage.draws
            height, width = _size_after(stage, height, width)
        return tuple(drawn)

    def result_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width that the stages give images of one size."""
        for stage in self.all_stages:
            height, width = _size_after(stage, height, width)
        return height, width


def _size_after(stage: Stage, height: int, width: int) -> tuple[int, int]:
    return stage.result_size(height, width) if isinstance(stage, RandomResizedCrop) else (height, width)


def _dsf(solarised: float, *first: Stage, jitter: ColourJitter, blurred: float) -> tuple[Stage, ...]:
    """The DSF paper's stages; those of probability zero are left out."""
    last: tuple[Stage, ...] = (Solarise(solarised), HorizontalFlip()) if solarised else (HorizontalFlip(),)
    return (*first, jitter, RandomGrey(0.2), GaussianBlur((0.1, 2.0), blurred), *last)


_DSF_JITTER = ColourJitter(0.4, 0.4, 0.4, 0.1, probability=0.8)
_DSF_IMAGENET_JITTER = ColourJitter(0.4, 0.4, 0.2, 0.1, probability=0.8)
_DSF_CROP = RandomResizedCrop(scale=(0.2, 1.0))
_ANY_WINDOW = WindowResize(224, scale=(0.08, 1.0))
_LARGE_WINDOW = WindowResize(224, scale=(0.2, 1.0))
_RETRIEVAL_SCALE = (0.16, 1.0)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "plain": Preset(),
        "plain_256": Preset(divisor=256.0),
        "amc_translate": Preset((ReflectPadCrop(2),), divisor=256.0),
        # vMF study
        "cifar_eval": Preset(protocol="vmf"),
        "vmf_cifar": Preset((ReflectPadCrop(4), HorizontalFlip()), protocol="vmf", stages_after=(Occlusion(),)),
        "vmf_cars196": Preset(
            (
                ColourJitter(0.3, 0.3, 0.3, 0.1),
                RandomResizedCrop(_RETRIEVAL_SCALE, ratio=(1.0, 1.0), size=224),
                HorizontalFlip(),
            ),
            protocol="imagenet",
            geometry=CentreCrop(256, resize=256),
        ),
        "vmf_cars196_eval": Preset(protocol="imagenet", geometry=CentreCrop(224, resize=256)),
        # Whole images differ in size, so colours change after the window is cut, not before: pixel by pixel the same,
        # but contrast is stretched from the mean of the window, not of the image.
        "vmf_cub200": Preset(
            (ColourJitter(0.25, 0.25, 0.25, 0.0), HorizontalFlip()),
            protocol="imagenet",
            geometry=WindowResize(224, shorter_edge=256, scale=_RETRIEVAL_SCALE),
        ),
        "vmf_cub200_eval": Preset(protocol="imagenet", geometry=CentreCrop(224, shorter_edge=256)),
        "vmf_sop": Preset(
            (HorizontalFlip(),),
            protocol="imagenet",
            geometry=WindowResize(224, resize=256, scale=_RETRIEVAL_SCALE),
        ),
        "vmf_sop_eval": Preset(protocol="imagenet", geometry=CentreCrop(224, resize=256)),
        # DSF
        "dsf_cifar": Preset(
            _dsf(0.0, _DSF_CROP, RandAugment(0.5), jitter=_DSF_JITTER, blurred=0.5),
            protocol="dsf",
        ),
        "dsf_cifar_no_randaugment": Preset(_dsf(0.0, _DSF_CROP, jitter=_DSF_JITTER, blurred=0.5), protocol="dsf"),
        "dsf_cifar_eval": Preset(protocol="dsf"),
        "dsf_imagenet_1": Preset(
            _dsf(0.0, jitter=_DSF_IMAGENET_JITTER, blurred=1.0), protocol="imagenet", geometry=_ANY_WINDOW
        ),
        "dsf_imagenet_2": Preset(
            _dsf(0.2, jitter=_DSF_IMAGENET_JITTER, blurred=0.1), protocol="imagenet", geometry=_ANY_WINDOW
        ),
        "dsf_imagenet_knn": Preset(protocol="imagenet", geometry=CentreCrop(224, resize=224)),
        "imagenet_eval": Preset(protocol="imagenet", geometry=CentreCrop(224, shorter_edge=256)),
        # Linear evaluation and transfer; the eval presets beside them are dsf_cifar_eval and imagenet_eval
        "dsf_cifar_linear": Preset(
            (RandomResizedCrop(scale=(0.08, 1.0)), HorizontalFlip(), _DSF_JITTER, RandomGrey(0.2)), protocol="dsf"
        ),
        "imagenet_linear": Preset((HorizontalFlip(),), protocol="imagenet", geometry=_ANY_WINDOW),
        # The paper normalises every transfer set with CIFAR-10's constants; the other pair does so with ImageNet's.
        "dsf_transfer": Preset((HorizontalFlip(),), protocol="dsf", geometry=_LARGE_WINDOW),
        "dsf_transfer_eval": Preset(protocol="dsf", geometry=CentreCrop(224, shorter_edge=256)),
        "imagenet_transfer": Preset((HorizontalFlip(),), protocol="imagenet", geometry=_LARGE_WINDOW),
        "imagenet_transfer_eval": Preset(protocol="imagenet", geometry=CentreCrop(224, shorter_edge=256)),
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
    if found.protocol is None:
        return found, None
    if found.protocol == "imagenet":
        if dataset.channels != 3:
            raise ValueError(f"preset {name} is for images of 3 channels; those of {dataset.name} have 1")
        return found, IMAGENET_CONSTANTS
    return found, dataset.constants(found.protocol)


def augment(images_BHWC: Tensor, preset: Preset, constants: Constants | None, drawn: Drawn) -> Tensor:
    """Applies a preset's stages: uint8 (B, H, W, C) -> float32 (B, C, H, W), freshly allocated, on the same device.

    CPU tensors go through compiled passes; `reference` defines what they give, to rounding.
    """
    if images_BHWC.device.type != "cpu":
        return reference(images_BHWC, preset, constants, drawn)
    from .augmentation.fast import augment as fast

    return fast(images_BHWC, preset, constants, drawn)


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
