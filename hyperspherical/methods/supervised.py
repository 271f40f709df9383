"""One encoder and one softmax objective: the supervised study.

Shapes: B batch, C channels or classes, H height, W width, D embedding dimension.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from hyperspherical.losses import ArcFaceLoss, HyperbolicSoftmaxLoss, SoftmaxLoss, VonMisesFisherLoss

from .base import Batch, Encoder, Features, Method, Progress, StepOutput


class Supervised(Method):
    """Trains an encoder with any loss of `hyperspherical.losses` that has `logits` and `predict`.

    Args:
        encoder: images (B, C, H, W) -> Features.
        objective: loss(embeddings (B, D), labels (B,), generator) -> scalar.
        margin_free_epochs: epochs at the start with ARCFACE's margin at 0, against embeddings that settle opposite
            their class (supplement, D.3).
        scale_estimate: how VMF's embedding multiplier alpha is estimated from the training images before the first
            step: "published" is Eq. 16, "exact_mean" Eq. 15; None for other objectives.
    """

    def __init__(
        self,
        encoder: Encoder,
        objective: SoftmaxLoss | HyperbolicSoftmaxLoss | VonMisesFisherLoss,
        *,
        margin_free_epochs: int = 0,
        scale_estimate: Literal["published", "exact_mean"] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.objective = objective
        self.margin = objective.margin if isinstance(objective, ArcFaceLoss) else None
        self.margin_free_epochs = margin_free_epochs
        self.scale_estimate = scale_estimate

    def training_step(self, batch: Batch, progress: Progress, generator: torch.Generator | None) -> StepOutput:
        if isinstance(self.objective, ArcFaceLoss) and self.margin is not None:
            self.objective.margin = self.margin if progress.epoch >= self.margin_free_epochs else 0.0
        features = self.encoder(batch.images_BVCHW[:, 0])
        return StepOutput(self.objective(features.embedding_BD, batch.labels_B, generator=generator), {})

    def initialise_from_data(self, batches: Iterable[Batch]) -> None:
        """Estimates alpha over the training images, in training mode but without touching running statistics."""
        objective = self.objective
        if not isinstance(objective, VonMisesFisherLoss) or self.scale_estimate is None:
            return
        with _batch_statistics_only(self.encoder), torch.no_grad():
            embeddings = [self.encoder(batch.images_BVCHW[:, 0]).embedding_BD for batch in batches]
        objective.estimate_embedding_scale(torch.cat(embeddings), form=self.scale_estimate)

    def encode(self, images_BCHW: Tensor) -> Features:
        features: Features = self.encoder(images_BCHW)
        return features

    def predict(self, images_BCHW: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.objective.predict(self.encode(images_BCHW).embedding_BD, generator=generator)


@contextmanager
def _batch_statistics_only(module: nn.Module) -> Iterator[None]:
    """Training mode in which batch norms use the batch's statistics and leave their running ones alone."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    tracked, was_training = [norm.track_running_stats for norm in norms], module.training
    module.train()
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, tracks in zip(norms, tracked, strict=True):
            norm.track_running_stats = tracks
        module.train(was_training)
