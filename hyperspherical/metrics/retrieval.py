"""Retrieval: every example searches among all others for those of its class.

Legend: N examples, D dimension, Q queries of a chunk, R neighbours that count.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hyperspherical.checks import check_at_least, check_choice, check_features, check_finite, check_labels
from hyperspherical.sphere import at_least_float32, normalize

Similarity = Callable[[Tensor, Tensor], Tensor]


class RetrievalScores(NamedTuple):
    """Means over the queries that have at least one other example of their class."""

    map_at_r: float
    recall_at_1: float
    r_precision: float
    nearest_is_right: Tensor
    """(N,) bool: whether the nearest neighbour has the query's class."""


def _cosine(queries: Tensor, keys: Tensor) -> Tensor:
    return normalize(queries) @ normalize(keys).T


def _inner(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.T


def _minus_distance(queries: Tensor, keys: Tensor) -> Tensor:
    return -torch.cdist(queries, keys)


_NAMED: dict[str, Similarity] = {"cosine": _cosine, "inner": _inner, "euclidean": _minus_distance}


@torch.no_grad()
def retrieval_scores(
    embeddings: Tensor, labels: Tensor, similarity: str | Similarity = "cosine", chunk: int = 1024
) -> RetrievalScores:
    """Mean average precision at R, recall at 1 and R-precision, each example searching among all others.

    R is the number of other examples of the query's class, and
    AP = (1 / R) sum_(k <= R) precision(k) * [neighbour k is of the class]. The query is excluded by its index;
    queries with R = 0 are left out of the means.

    Args:
        embeddings: (N, D), N >= 2.
        labels: (N,) integers.
        similarity: "cosine", "inner", "euclidean" (minus the distance), or a function (Q, D), (N, D) -> (Q, N),
            larger for nearer (such as minus `poincare.distance_matrix`).
        chunk: queries at a time.

    Raises:
        ValueError: wrong shapes or types, fewer than 2 examples, embeddings that are not finite, an unknown similarity
            or one of another shape than (Q, N), no class with two examples.
    """
    check_features("embeddings", embeddings, ("N", "D"))
    count = embeddings.shape[0]
    check_at_least("the number of embeddings", count, 2)
    check_labels("labels", labels, count)
    check_finite("embeddings", embeddings)
    check_at_least("chunk", chunk, 1)
    if isinstance(similarity, str):
        check_choice("similarity", similarity, tuple(_NAMED))
        similarity = _NAMED[similarity]
    elif not callable(similarity):
        raise ValueError(f"similarity must be one of {', '.join(map(repr, _NAMED))} or a function, got {similarity!r}")
    embeddings = at_least_float32(embeddings)
    _, class_N, sizes = labels.unique(return_inverse=True, return_counts=True)
    relevant_N = sizes[class_N] - 1
    most = int(relevant_N.max())
    if most == 0:
        raise ValueError("labels must contain at least one class with two examples, got none")
    rank_R = torch.arange(1, most + 1, device=labels.device)
    average, precision, nearest = [], [], []
    for rows in torch.arange(count, device=labels.device).split(chunk):
        scores_QN = similarity(embeddings[rows], embeddings)
        check_features("the result of similarity", scores_QN, (rows.shape[0], count))
        scores_QN = scores_QN.scatter(1, rows[:, None], -torch.inf)
        found_QR = scores_QN.topk(most, dim=1).indices
        right_QR = labels[found_QR] == labels[rows][:, None]
        nearest.append(right_QR[:, 0])
        counted_QR = right_QR & (rank_R <= relevant_N[rows][:, None])
        precision_QR = counted_QR.double().cumsum(dim=1) / rank_R
        r_Q = relevant_N[rows].clamp_min(1)
        average.append((precision_QR * counted_QR).sum(dim=1) / r_Q)
        precision.append(counted_QR.sum(dim=1) / r_Q)
    scored_N = relevant_N > 0
    nearest_N = torch.cat(nearest)
    return RetrievalScores(
        float(torch.cat(average)[scored_N].mean()),
        float(nearest_N[scored_N].double().mean()),
        float(torch.cat(precision)[scored_N].double().mean()),
        nearest_N,
    )
