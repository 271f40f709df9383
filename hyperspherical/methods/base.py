"""The contract between what is trained and the loop that trains it.

Shapes: B batch, V views, C channels or classes, H height, W width, D embedding dimension.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Batch(Protocol):
    """Views of images with their labels; V = 1 where a method needs one view."""

    @property
    def images_BVCHW(self) -> Tensor: ...
    @property
    def labels_B(self) -> Tensor: ...


class Features(NamedTuple):
    """What an encoder gives: the pooled features, and the embedding that the objective sees."""

    backbone_BD: Tensor
    embedding_BD: Tensor


class Encoder(nn.Module):
    """A trunk from images (B, C, H, W) to pooled features, and a head from those to the embedding.

    Args:
        trunk: images (B, C, H, W) -> (B, backbone_size).
        head: (B, backbone_size) -> (B, embedding_size).
    """

    def __init__(self, trunk: nn.Module, head: nn.Module, backbone_size: int, embedding_size: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.backbone_size = backbone_size
        self.embedding_size = embedding_size

    def forward(self, images_BCHW: Tensor) -> Features:
        backbone_BD = self.trunk(images_BCHW)
        return Features(backbone_BD, self.head(backbone_BD))


class StepOutput(NamedTuple):
    """The loss to differentiate, and 0-d values worth a line in the log."""

    loss: Tensor
    logs: dict[str, Tensor]


class Progress(NamedTuple):
    """Where training stands; epochs and steps count from 0."""

    epoch: int
    step: int
    epochs: int
    steps_per_epoch: int


class Method(nn.Module):
    """The one module that is trained: encoder, objective, and whatever state they need between steps.

    Everything that must survive a checkpoint is a parameter or a buffer. The loop calls the module itself, never
    `training_step`, so that wrappers for several devices see every step.
    """

    def training_step(self, batch: Batch, progress: Progress, generator: torch.Generator | None) -> StepOutput:
        """The loss of one batch."""
        raise TypeError(f"{type(self).__name__} does not define training_step")

    def forward(self, batch: Batch, progress: Progress, generator: torch.Generator | None = None) -> StepOutput:
        return self.training_step(batch, progress, generator)

    def initialise_from_data(self, batches: Iterable[Batch]) -> None:
        """Once, before the first step of a fresh run: values that depend on the training images. By default none."""

    def after_step(self, progress: Progress) -> None:
        """After the optimiser's step: moving averages. By default nothing."""

    def encode(self, images_BCHW: Tensor) -> Features:
        """Features of images, by the weights that are evaluated."""
        raise TypeError(f"{type(self).__name__} does not define encode")

    def predict(self, images_BCHW: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Class probabilities (B, C). Raises `TypeError` for a method without a classifier."""
        raise TypeError(f"{type(self).__name__} has no classifier: evaluate its embeddings instead")

    def undecayed_parameters(self) -> set[str]:
        """Names of weights that are never decayed: those that a module lists in its `no_weight_decay`."""
        return {
            f"{path}.{name}" if path else name
            for path, module in self.named_modules()
            for name in getattr(module, "no_weight_decay", ())
        }


@torch.no_grad()
def update_moving_average(average: nn.Module, source: nn.Module, decay: float, *, buffers: bool) -> None:
    """average <- decay average + (1 - decay) source, for parameters and, if asked, floating-point buffers."""
    torch._foreach_lerp_(list(average.parameters()), list(source.parameters()), 1 - decay)
    if buffers:
        for kept, fresh in zip(average.buffers(), source.buffers(), strict=True):
            kept.lerp_(fresh, 1 - decay) if kept.is_floating_point() else kept.copy_(fresh)
