"""The vMF softmax loss as plain loops in float64, and the quadrature of mu.x that the benchmark of accuracy shares."""

import math

from torch import Tensor

from benchmarks.high_precision import marginal_cdf
from tests.reference import bessel

__all__ = [
    "log_c",
    "marginal_cdf",
    "mean_length",
    "published_log_c",
    "published_mean_length",
    "vmf_loss",
]


def log_c(dim: int, kappa: float) -> float:
    return float(bessel.vmf(dim, max(kappa, 1e-12))["log C"])


def mean_length(dim: int, kappa: float) -> float:
    return float(bessel.vmf(dim, max(kappa, 1e-12))["A"])


def published_log_c(dim: int, kappa: float) -> float:
    a = (dim - 1) / 2
    roots = [math.sqrt(q * q + kappa * kappa) for q in (a, (dim + 1) / 2)]
    return sum(0.5 * (a * math.log(a + s) - s) for s in roots)


def published_mean_length(dim: int, kappa: float) -> float:
    a, b = (dim - 1) / 2, (dim + 1) / 2
    return 0.5 * sum(kappa / (a + math.sqrt(q * q + kappa * kappa)) for q in (a, b))


def vmf_loss(z_BN: Tensor, w_YN: Tensor, labels: list[int], beta: float, draws_SBN: Tensor, published: bool) -> float:
    """Eq. 13 for given draws."""
    dim = z_BN.shape[1]
    normalizer, length = (published_log_c, published_mean_length) if published else (log_c, mean_length)
    total = 0.0
    for b, y in enumerate(labels):
        first = 0.0
        for draws_BN in draws_SBN:
            inner = 0.0
            for w in w_YN:
                moved = float((w + beta * draws_BN[b]).norm())
                inner += math.exp(normalizer(dim, float(w.norm())) - normalizer(dim, moved))
            first += math.log(inner) / len(draws_SBN)
        kappa_z, kappa_y = float(z_BN[b].norm()), float(w_YN[y].norm())
        cosine = float(z_BN[b] @ w_YN[y]) / (kappa_z * kappa_y)
        total += first - beta * length(dim, kappa_z) * length(dim, kappa_y) * cosine
    return total / len(labels)
