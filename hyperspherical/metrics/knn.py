"""Classification by the nearest neighbours in a bank of labelled embeddings.

Legend: M bank entries, Q queries, D dimension, K neighbours, C classes.
"""

import math

import torch
from torch import Tensor

from hyperspherical.checks import check_at_least, check_features, check_finite, check_labels
from hyperspherical.sphere import at_least_float32, normalize


@torch.no_grad()
def knn_probabilities(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    num_classes: int,
    k: int = 200,
    temperature: float = 0.1,
    chunk: int = 512,
) -> Tensor:
    """Class probabilities from the k most similar bank entries, each voting with exp(cosine / temperature).

    Args:
        bank: (M, D) embeddings, M >= 1; a k above M counts as M.
        bank_labels: (M,) integers in 0 ... num_classes - 1.
        queries: (Q, D).
        num_classes: C.
        k: neighbours, at least 1.
        temperature: > 0.
        chunk: queries at a time.

    Returns:
        (Q, C) probabilities.

    Raises:
        ValueError: an empty bank, wrong shapes or types, labels or options out of range, values not finite.
    """
    check_features("bank", bank, ("M", "D"))
    check_features("queries", queries, ("Q", bank.shape[1]))
    check_finite("bank", bank)
    check_finite("queries", queries)
    check_at_least("num_classes", num_classes, 1)
    check_at_least("k", k, 1)
    check_at_least("chunk", chunk, 1)
    check_labels("bank_labels", bank_labels, bank.shape[0], num_classes)
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    bank_MD = normalize(at_least_float32(bank))
    parts = []
    for queries_QD in normalize(at_least_float32(queries)).to(bank_MD.dtype).split(chunk):
        nearest = (queries_QD @ bank_MD.T).topk(min(k, bank_MD.shape[0]), dim=1)
        vote_QK = (nearest.values / temperature).softmax(dim=1)  # the softmax is exp over its sum: votes that add to 1
        empty = torch.zeros(queries_QD.shape[0], num_classes, dtype=vote_QK.dtype, device=vote_QK.device)
        parts.append(empty.scatter_add(1, bank_labels[nearest.indices], vote_QK))
    return torch.cat(parts)
