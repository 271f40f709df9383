"""Cross entropy with a contrastive term over the pairs of a batch's two halves (AMC paper, Algorithm 1).

Shapes: B batch, C channels or classes, H height, W width, D feature dimension.
"""

import copy
import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hyperspherical.losses import pair_labels as pairs_by_halves

from .base import Batch, Encoder, Features, Method, Progress, StepOutput, update_moving_average


class PairContrastive(Method):
    """CE + w(t) lambda mean_k L(pair k), evaluated by a moving average of the weights.

    Args:
        encoder: images (B, C, H, W) -> Features; its backbone features enter the term on pairs and the classifier.
        num_classes: C.
        contrast: loss(features (B, D), pair_labels (B / 2,)) -> scalar, or None for cross entropy alone.
        weight: lambda.
        ramp_up_epochs: R in w(t) = exp(-5 (1 - t / R)^2) for epochs t < R, else 1; w(0) = 0.
        pair_labels: pairs are similar if their "predicted" labels agree (Eq. 3), or their "true" ones.
        averaging: decay per step of the moving average of weights and running statistics.

    The moving average, and the running statistics of the encoder's batch norms, start as plain means and keep their own
    decay once it is slower: with the published 0.999 they would hold on to the initial weights for thousands of steps.
    """

    def __init__(
        self,
        encoder: Encoder,
        num_classes: int,
        *,
        contrast: nn.Module | None,
        weight: float = 0.1,
        ramp_up_epochs: int = 80,
        pair_labels: Literal["predicted", "true"] = "predicted",
        averaging: float = 0.999,
    ) -> None:
        super().__init__()
        classifier = nn.Linear(encoder.backbone_size, num_classes)
        nn.init.xavier_uniform_(classifier.weight)
        nn.init.zeros_(classifier.bias)
        encoder.head.requires_grad_(False)  # not part of this method, and workers wait for every gradient
        self.network = nn.ModuleDict({"encoder": encoder, "classifier": classifier})
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.contrast = contrast
        self.weight = weight
        self.ramp_up_epochs = ramp_up_epochs
        self.pair_labels = pair_labels
        self.averaging = averaging
        # By name, because a batch norm may be exchanged for a synchronised one.
        norms = nn.modules.batchnorm._BatchNorm
        self.momenta = {name: part.momentum for name, part in encoder.named_modules() if isinstance(part, norms)}

    def training_step(self, batch: Batch, progress: Progress, generator: torch.Generator | None) -> StepOutput:
        images_BCHW, labels_B = batch.images_BVCHW[:, 0], batch.labels_B
        for name, momentum in self.momenta.items():
            norm = self.network["encoder"].get_submodule(name)
            assert isinstance(norm, nn.modules.batchnorm._BatchNorm)
            norm.momentum = max(momentum or 0.0, 1 / (_steps_before(progress) + 1))
        features_BD = self.network["encoder"](images_BCHW).backbone_BD
        logits_BC = self.network["classifier"](features_BD)
        cross_entropy = F.cross_entropy(logits_BC, labels_B)
        if self.contrast is None:
            return StepOutput(cross_entropy, {"cross_entropy": cross_entropy.detach()})
        decisive_B = logits_BC.argmax(1) if self.pair_labels == "predicted" else labels_B
        contrast = self.contrast(features_BD, pairs_by_halves(decisive_B))
        loss = cross_entropy + self.weight * self._ramp(progress.epoch) * contrast
        return StepOutput(loss, {"cross_entropy": cross_entropy.detach(), "contrast": contrast.detach()})

    def after_step(self, progress: Progress) -> None:
        steps = _steps_before(progress)
        update_moving_average(self.average, self.network, min(self.averaging, steps / (steps + 1)), buffers=True)

    def encode(self, images_BCHW: Tensor) -> Features:
        features: Features = self.average["encoder"](images_BCHW)
        return features

    def predict(self, images_BCHW: Tensor, generator: torch.Generator | None = None) -> Tensor:
        logits_BC: Tensor = self.average["classifier"](self.encode(images_BCHW).backbone_BD)
        return logits_BC.softmax(1)

    def _ramp(self, epoch: int) -> float:
        if epoch == 0:
            return 0.0
        return math.exp(-5 * (1 - epoch / self.ramp_up_epochs) ** 2) if epoch < self.ramp_up_epochs else 1.0


def _steps_before(progress: Progress) -> int:
    return progress.epoch * progress.steps_per_epoch + progress.step
