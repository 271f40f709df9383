"""Objectives: one class per objective, `Loss(num_classes, embedding_size)` and `loss(embeddings, labels)`."""

from hyperspherical.losses.contrastive_pairs import (
    AngularMarginContrastiveLoss,
    EuclideanContrastiveLoss,
    pair_labels,
)
from hyperspherical.losses.multiview import (
    dcl_loss,
    in_batch_loss,
    info_nce,
    loss_average,
    queue_info_nce,
    simclr_loss,
)
from hyperspherical.losses.softmax import ArcFaceLoss, CosineSoftmaxLoss, HyperbolicSoftmaxLoss, SoftmaxLoss
from hyperspherical.losses.vmf_softmax import VonMisesFisherLoss, concentration_for_ratio, embedding_scale

__all__ = [
    "AngularMarginContrastiveLoss",
    "ArcFaceLoss",
    "CosineSoftmaxLoss",
    "EuclideanContrastiveLoss",
    "HyperbolicSoftmaxLoss",
    "SoftmaxLoss",
    "VonMisesFisherLoss",
    "concentration_for_ratio",
    "dcl_loss",
    "embedding_scale",
    "in_batch_loss",
    "info_nce",
    "loss_average",
    "pair_labels",
    "queue_info_nce",
    "simclr_loss",
]
