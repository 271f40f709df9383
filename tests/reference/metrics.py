"""Calibration and retrieval as plain loops."""

import math

import numpy as np
from torch import Tensor


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int, binning: str, norm: str) -> float:
    pairs = sorted((max(row), row.index(max(row)) == y) for row, y in zip(probabilities.tolist(), labels, strict=True))
    members: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for rank, pair in enumerate(pairs):
        where = rank * bins // len(pairs) if binning == "equal_mass" else math.ceil(pair[0] * bins) - 1
        members[where].append(pair)
    total = 0.0
    for member in members:
        if member:
            gap = abs(np.mean([right for _, right in member]) - np.mean([confidence for confidence, _ in member]))
            total += len(member) / len(pairs) * gap ** (1 if norm == "l1" else 2)
    return total if norm == "l1" else math.sqrt(total)


def retrieval(embeddings: Tensor, labels: Tensor, similarity: str) -> tuple[float, float, float]:
    averages, nearest, precisions = [], [], []
    for i, x in enumerate(embeddings):
        relevant = int((labels == labels[i]).sum()) - 1
        if relevant == 0:
            continue
        scores = []
        for j, y in enumerate(embeddings):
            value = float(x @ y)
            if similarity == "cosine":
                value /= float(x.norm() * y.norm())
            elif similarity == "euclidean":
                value = -float((x - y).norm())
            if j != i:
                scores.append((value, bool(labels[j] == labels[i])))
        right = [hit for _, hit in sorted(scores, key=lambda pair: -pair[0])]
        hits, total = 0, 0.0
        for k in range(relevant):
            hits += right[k]
            total += right[k] * hits / (k + 1)
        averages.append(total / relevant)
        precisions.append(hits / relevant)
        nearest.append(right[0])
    return float(np.mean(averages)), float(np.mean(nearest)), float(np.mean(precisions))
