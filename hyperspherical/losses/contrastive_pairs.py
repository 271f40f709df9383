"""Contrastive losses on pairs of a batch: AMC (geodesic) and its Euclidean counterpart.

A batch of 2M features is paired by halves: k with k + M. No term is quadratic in the batch.

Legend: M pairs, D feature dimension.
"""

import math

import torch
from torch import Tensor, nn

from hyperspherical.checks import check_features, check_labels, check_shape
from hyperspherical.sphere import angle, at_least_float32, autocast_off, normalize


def pair_labels(labels: Tensor) -> Tensor:
    """S of the AMC paper (Eq. 3): whether the labels of k and k + M agree.

    Args:
        labels: (2M,) integers, true or predicted (argmax of the logits).

    Returns:
        (M,) bool.

    Raises:
        ValueError: labels are not integers or not one-dimensional, or their number is odd or zero.
    """
    if labels.dim() != 1 or labels.shape[0] % 2 or not labels.shape[0]:
        raise ValueError(f"labels must have shape (2M,) with M at least 1, got {tuple(labels.shape)}")
    check_labels("labels", labels, labels.shape[0])
    first, second = labels.chunk(2)
    return first == second


def _halves(features: Tensor, pair_labels: Tensor) -> tuple[Tensor, Tensor]:
    check_features("features", features, ("2M", "D"))
    if features.shape[0] % 2:
        raise ValueError(f"features must have an even number of rows to be paired by halves, got {features.shape[0]}")
    if pair_labels.dtype != torch.bool:
        raise ValueError(f"pair_labels must be a bool tensor, got {pair_labels.dtype}")
    check_shape("pair_labels", pair_labels, (features.shape[0] // 2,))
    first, second = at_least_float32(features).chunk(2)
    return first, second


class AngularMarginContrastiveLoss(nn.Module):
    """AMC loss: theta^2 for pairs that agree, max(0, margin - theta)^2 for pairs that do not, mean over pairs.

    theta is the geodesic angle of the normalised features. The gradient is zero at theta = 0, where it has no
    direction.

    Args:
        margin: m_g in radians, in (0, pi].

    Raises:
        ValueError: margin out of range; features not (2M, D); pair_labels not (M,) bool.
    """

    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        if not 0 < margin <= math.pi:
            raise ValueError(f"margin must lie in (0, pi] radians, got {margin}")
        self.margin = margin

    def forward(self, features: Tensor, pair_labels: Tensor) -> Tensor:
        """(2M, D) features of any length and (M,) bool -> scalar in squared radians."""
        first, second = _halves(features, pair_labels)
        with autocast_off(features):
            theta_M = angle(normalize(first), normalize(second))
            losses_M = torch.where(pair_labels, theta_M.square(), (self.margin - theta_M).clamp_min(0.0).square())
            return losses_M.mean()

    def extra_repr(self) -> str:
        return f"margin={self.margin}"


class EuclideanContrastiveLoss(nn.Module):
    """As the AMC loss, with the distance d = |x_i - x_j| of the features as they are: d^2 or max(0, margin - d)^2.

    Args:
        margin: m_e > 0, in the unit of the features.

    Raises:
        ValueError: margin out of range; features not (2M, D); pair_labels not (M,) bool.
    """

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        if not 0 < margin < math.inf:
            raise ValueError(f"margin must be positive and finite, got {margin}")
        self.margin = margin

    def forward(self, features: Tensor, pair_labels: Tensor) -> Tensor:
        """(2M, D) features and (M,) bool -> scalar in the squared unit of the features."""
        first, second = _halves(features, pair_labels)
        with autocast_off(features):
            difference = first - second
            apart_M = (self.margin - torch.linalg.vector_norm(difference, dim=-1)).clamp_min(0.0).square()
            return torch.where(pair_labels, difference.square().sum(dim=-1), apart_M).mean()

    def extra_repr(self) -> str:
        return f"margin={self.margin}"
