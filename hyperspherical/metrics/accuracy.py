"""Top-k accuracy.

Legend: B examples, C classes.
"""

from torch import Tensor

from hyperspherical.checks import check_at_least, check_features, check_labels, values_are_checked


def accuracy(scores: Tensor, labels: Tensor, k: int = 1) -> Tensor:
    """Share of examples whose label is among the k classes of highest score.

    Args:
        scores: (B, C) logits or probabilities.
        labels: (B,) integers in 0 ... C - 1.
        k: 1 ... C.

    Returns:
        0-d float64 in [0, 1].

    Raises:
        ValueError: wrong shapes or types, labels or k out of range, scores that are nan (checked on the CPU).
    """
    check_features("scores", scores, ("B", "C"))
    check_labels("labels", labels, scores.shape[0], scores.shape[1])
    check_at_least("k", k, 1)
    if k > scores.shape[1]:
        raise ValueError(f"k must be at most the number of classes {scores.shape[1]}, got {k}")
    if values_are_checked(scores) and bool(scores.isnan().any()):
        raise ValueError(f"scores must be numbers, got nan for {int(scores.isnan().any(dim=1).sum())} examples")
    best_BK = scores.topk(k, dim=1).indices
    return (best_BK == labels[:, None]).any(dim=1).double().mean()
