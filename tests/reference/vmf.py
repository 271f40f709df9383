"""Quadrature of the marginal of mu.x, and the vMF softmax loss as plain loops in float64."""

import math

import numpy as np
from torch import Tensor

from tests.reference import bessel


def marginal_cdf(dim: int, kappa: float, points: int = 400_001) -> tuple[np.ndarray, np.ndarray]:
    """Nodes w in [-1, 1] and the distribution function there, integrated in the angle."""
    phi = np.linspace(0.0, math.pi, points)
    with np.errstate(divide="ignore"):
        log_p = kappa * np.cos(phi) + (dim - 2) * np.log(np.sin(phi)) if dim > 2 else kappa * np.cos(phi)
    p = np.exp(log_p - log_p.max())
    cumulative = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    return np.cos(phi)[::-1], (1 - cumulative / cumulative[-1])[::-1]


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
