"""Calibration: does a confidence of 80 % come true in 80 % of the cases?

Legend: B examples, C classes, K bins.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from hyperspherical.checks import check_at_least, check_choice, check_features, check_labels, values_are_checked


class ReliabilityCurve(NamedTuple):
    """Per bin of confidence, lowest first; empty bins hold zeros."""

    confidence: Tensor
    """(K,) mean of the largest probability."""
    accuracy: Tensor
    """(K,) share of right predictions."""
    counts: Tensor
    """(K,) examples in the bin."""


def reliability_curve(
    probabilities: Tensor, labels: Tensor, bins: int = 15, binning: str = "equal_mass"
) -> ReliabilityCurve:
    """Confidence and accuracy of the predicted class, per bin of confidence.

    Args:
        probabilities: (B, C).
        labels: (B,) integers in 0 ... C - 1.
        bins: K, at least 1.
        binning: "equal_mass" puts the example of rank r into bin floor(r K / B); "equal_width" into the bin
            (k / K, (k + 1) / K] that holds its confidence.

    Raises:
        ValueError: wrong shapes or types, labels or probabilities out of range, an unknown binning.
    """
    check_features("probabilities", probabilities, ("B", "C"))
    batch, classes = probabilities.shape
    check_labels("labels", labels, batch, classes)
    check_at_least("bins", bins, 1)
    check_choice("binning", binning, ("equal_mass", "equal_width"))
    if values_are_checked(probabilities):
        low, high = (bound.item() for bound in probabilities.detach().aminmax())
        if not (low >= 0 and high <= 1 + 1e-3):
            raise ValueError(
                f"probabilities must lie in [0, 1], got values from {low:.6g} to {high:.6g}: "
                "pass the softmax, not logits"
            )
    confidence_B, predicted_B = probabilities.double().max(dim=1)
    right_B = (predicted_B == labels).double()
    if binning == "equal_mass":
        order = confidence_B.argsort(stable=True)
        confidence_B, right_B = confidence_B[order], right_B[order]
        bin_B = torch.arange(batch, device=labels.device) * bins // batch
    else:
        bin_B = ((confidence_B * bins).ceil().long() - 1).clamp(0, bins - 1)
    count_K = torch.zeros(bins, dtype=torch.float64, device=labels.device)
    sums = [count_K.index_add(0, bin_B, x) for x in (confidence_B, right_B, torch.ones_like(right_B))]
    filled = sums[2].clamp_min(1)
    return ReliabilityCurve(sums[0] / filled, sums[1] / filled, sums[2].long())


def calibration_error(
    probabilities: Tensor, labels: Tensor, bins: int = 15, binning: str = "equal_mass", norm: str = "l1"
) -> Tensor:
    """Expected calibration error of the predicted class.

    "l1" with "equal_width" is the usual ECE, the weighted mean of |accuracy - confidence|; "l2" with "equal_mass" is
    the root mean square that the vMF paper's code reports.

    Args:
        probabilities, labels, bins, binning: see `reliability_curve`.
        norm: "l1" or "l2".

    Returns:
        0-d float64 in [0, 1].

    Raises:
        ValueError: as `reliability_curve`; an unknown norm.
    """
    check_choice("norm", norm, ("l1", "l2"))
    curve = reliability_curve(probabilities, labels, bins, binning)
    weight_K = curve.counts.double() / labels.shape[0]
    gap_K = (curve.accuracy - curve.confidence).abs()
    return (weight_K * gap_K).sum() if norm == "l1" else (weight_K * gap_K.square()).sum().sqrt()
