"""Multi-view contrastive objectives and the DSF similarity as plain loops, float64."""

import math

import numpy as np
from torch import Tensor

from tests.reference import vmf


def cosine(x: Tensor, y: Tensor) -> float:
    return float(x @ y / (x.norm() * y.norm()))


def simclr(z_BVD: Tensor, temperature: float, decoupled: bool = False) -> float:
    losses = []
    batch, views, _ = z_BVD.shape
    for i in range(batch):
        for v in range(views):
            others = sum(
                math.exp(cosine(z_BVD[i, v], z_BVD[j, u]) / temperature)
                for j in range(batch)
                for u in range(views)
                if j != i
            )
            for u in range(views):
                if u != v:
                    own = cosine(z_BVD[i, v], z_BVD[i, u]) / temperature
                    losses.append(math.log(others + (0.0 if decoupled else math.exp(own))) - own)
    return float(np.mean(losses))


def loss_average(q_BVD: Tensor, k_BVD: Tensor, temperature: float, queue_KD: Tensor | None = None) -> float:
    losses = []
    for b, q_VD in enumerate(q_BVD):
        for q in q_VD:
            for j in range(k_BVD.shape[1]):
                own = cosine(q, k_BVD[b, j]) / temperature
                others = [k_BVD[i, j] for i in range(len(k_BVD)) if i != b] if queue_KD is None else list(queue_KD)
                total = math.exp(own) + sum(math.exp(cosine(q, other) / temperature) for other in others)
                losses.append(math.log(total) - own)
    return float(np.mean(losses))


def fit(views_VD: Tensor, shrinkage: float, by_dimension: bool) -> tuple[np.ndarray, float, float]:
    dim = views_VD.shape[1]
    mean = np.mean([(view / view.norm()).numpy() for view in views_VD], axis=0)
    length = float(np.linalg.norm(mean))
    r = shrinkage * length
    kappa = r * (dim - r * r) / max(1 - r * r, 1e-8)
    return mean / length, kappa / dim if by_dimension else kappa, r


def kl(q: tuple[np.ndarray, float, float], k: tuple[np.ndarray, float, float], exact: bool) -> float:
    (mu_q, kappa_q, r_q), (mu_k, kappa_k, _) = q, k
    dim = len(mu_q)
    a = vmf.mean_length(dim, kappa_q) if exact else r_q
    return vmf.log_c(dim, kappa_q) - vmf.log_c(dim, kappa_k) + a * (kappa_q - kappa_k * float(mu_q @ mu_k))
