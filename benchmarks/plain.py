"""The objectives as somebody would write them straight from the papers: vectorised torch, nothing rearranged.

Legend: S draws, B batch, N embedding dimension n, Y classes, V views, D dimension, K keys.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def standard(x_BN: Tensor, w_YN: Tensor, labels_B: Tensor) -> Tensor:
    return F.cross_entropy(x_BN @ w_YN.T, labels_B)


def cosine(x_BN: Tensor, w_YN: Tensor, tau: Tensor, labels_B: Tensor) -> Tensor:
    """The yardstick of the table."""
    return F.cross_entropy(torch.exp(tau) * F.normalize(x_BN) @ F.normalize(w_YN).T, labels_B)


def arcface(x_BN: Tensor, w_YN: Tensor, tau: Tensor, labels_B: Tensor, margin: float = 0.5) -> Tensor:
    cosine_BY = F.normalize(x_BN) @ F.normalize(w_YN).T
    theta_BY = torch.arccos(cosine_BY.clamp(-1 + 1e-7, 1 - 1e-7))
    own_BY = F.one_hot(labels_B, len(w_YN)).bool()
    logits_BY = torch.exp(tau) * torch.where(own_BY, torch.cos(theta_BY + margin), cosine_BY)
    return F.cross_entropy(logits_BY, labels_B)


def _into_ball(u: Tensor, c: float) -> Tensor:
    length = u.norm(dim=-1, keepdim=True).clamp_min(1e-5)
    x = torch.tanh((math.sqrt(c) * length).clamp(-15, 15)) * u / (math.sqrt(c) * length)
    limit = (1 - 1e-3) / math.sqrt(c)
    norm = x.norm(dim=-1, keepdim=True)
    return torch.where(norm > limit, x / norm * limit, x)


def _moebius_add(x: Tensor, y: Tensor, c: float) -> Tensor:
    inner = (x * y).sum(dim=-1, keepdim=True)
    xx, yy = x.square().sum(dim=-1, keepdim=True), y.square().sum(dim=-1, keepdim=True)
    return ((1 + 2 * c * inner + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * inner + c * c * xx * yy + 1e-5)


def hyperbolic(x_BN: Tensor, normals_YN: Tensor, offsets_YN: Tensor, labels_B: Tensor, c: float = 1e-5) -> Tensor:
    """The logits of `HyperbolicSoftmaxLoss` by Moebius addition in (B, Y, n); without the Riemannian gradient."""
    ball_BN, p_YN = _into_ball(x_BN, c), _into_ball(offsets_YN, c)
    conformal_Y = 2 / (1 - c * p_YN.square().sum(dim=-1))
    a_YN = normals_YN * (2 / conformal_Y)[:, None]
    length_Y = a_YN.norm(dim=-1).clamp_min(1e-7)
    moved_BYN = _moebius_add(-p_YN[None], ball_BN[:, None], c)
    inner_BY = (moved_BYN * a_YN).sum(dim=-1)
    argument_BY = 2 * math.sqrt(c) * inner_BY / (length_Y * (1 - c * moved_BYN.square().sum(dim=-1)))
    return F.cross_entropy(conformal_Y * length_Y / math.sqrt(c) * torch.asinh(argument_BY), labels_B)


def _radial(kappa_B: Tensor, n: int, draws: int) -> Tensor:
    """cos of the angle to the mean direction, (S, B): inverse in three dimensions, else Wood's rejection."""
    shape = (draws, len(kappa_B))
    if n == 3:
        u = torch.rand(shape, device=kappa_B.device)
        return 1 + torch.log(u + (1 - u) * torch.exp(-2 * kappa_B)) / kappa_B
    root = torch.sqrt(4 * kappa_B.square() + (n - 1) ** 2)
    b, a = (n - 1) / (2 * kappa_B + root), (n - 1 + 2 * kappa_B + root) / 4
    d = 4 * a * b / (1 + b) - (n - 1) * math.log(n - 1)
    half = torch.tensor((n - 1) / 2, device=kappa_B.device)
    beta = torch.distributions.Beta(half, half)
    epsilon = torch.zeros(shape, device=kappa_B.device)
    waiting = torch.ones(shape, dtype=torch.bool, device=kappa_B.device)
    while waiting.any():
        proposal = beta.sample(shape)
        t = 2 * a * b / (1 - (1 - b) * proposal)
        accepted = waiting & ((n - 1) * torch.log(t) - t + d >= torch.log(torch.rand(shape, device=kappa_B.device)))
        epsilon = torch.where(accepted, proposal, epsilon)
        waiting = waiting & ~accepted
    return (1 - (1 + b) * epsilon) / (1 - (1 - b) * epsilon)


def _rsample(mean_BN: Tensor, kappa_B: Tensor, draws: int) -> Tensor:
    """(S, B, n): (cos, sin v) around the first axis, reflected by the hyperplane that carries that axis to the mean."""
    batch, n = mean_BN.shape
    cos_SB1 = _radial(kappa_B, n, draws)[..., None]
    v = F.normalize(torch.randn(draws, batch, n - 1, device=mean_BN.device), dim=-1)
    x_SBN = torch.cat([cos_SB1, torch.sqrt((1 - cos_SB1.square()).clamp_min(1e-7)) * v], dim=-1)
    axis = torch.zeros(n, device=mean_BN.device)
    axis[0] = 1
    u_BN = F.normalize(axis - mean_BN, dim=-1, eps=1e-7)
    return x_SBN - 2 * (x_SBN * u_BN).sum(dim=-1, keepdim=True) * u_BN


def _log_c(t: Tensor, n: int) -> Tensor:
    """Eq. 12 at kappa^2 = t."""
    a, b = (n - 1) / 2, (n + 1) / 2
    roots = torch.sqrt(a * a + t), torch.sqrt(b * b + t)
    return sum(0.5 * (a * torch.log(a + root) - root) for root in roots)


def _mean_length(kappa: Tensor, n: int) -> Tensor:
    """Eq. 10."""
    a, b = (n - 1) / 2, (n + 1) / 2
    return 0.5 * (kappa / (a + torch.sqrt(b * b + kappa**2)) + kappa / (a + torch.sqrt(a * a + kappa**2)))


def vmf(z_BN: Tensor, w_YN: Tensor, tau: Tensor, labels_B: Tensor, draws: int = 10) -> Tensor:
    """Eq. 13 at natural parameters z (B, n) of the embeddings and w (Y, n) of the classes."""
    n, beta = z_BN.shape[1], torch.exp(tau)
    kappa_B, kappa_Y = z_BN.norm(dim=-1), w_YN.norm(dim=-1)
    mean_BN, mean_YN = z_BN / kappa_B[:, None], w_YN / kappa_Y[:, None]
    draws_SBN = _rsample(mean_BN, kappa_B, draws)
    t_Y = kappa_Y.square()
    terms_SBY = _log_c(t_Y, n) - _log_c(t_Y + beta.square() + 2 * beta * draws_SBN @ w_YN.T, n)
    pull_B = _mean_length(kappa_B, n) * _mean_length(kappa_Y, n)[labels_B] * (mean_BN * mean_YN[labels_B]).sum(dim=-1)
    return terms_SBY.logsumexp(dim=-1).mean() - beta * pull_B.mean()


def fit(views_BVD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean directions (B, D), concentrations over D (B,), shrunk mean resultant lengths (B,)."""
    dim = views_BVD.shape[-1]
    mean_BD = F.normalize(views_BVD, dim=-1).mean(dim=1)
    r_B = 0.95 * mean_BD.norm(dim=-1)
    kappa_B = r_B * (dim - r_B.square()) / (1 - r_B.square()).clamp_min(1e-8) / dim
    return F.normalize(mean_BD, dim=-1), kappa_B, r_B


def _log_iv(v: float, kappa: Tensor) -> Tensor:
    """The uniform expansion of log I_v, up to its third term (DSF, Eq. 21-22)."""
    z = kappa / v
    s = torch.sqrt(1 + z.square())
    p = 1 / s
    u_1 = (3 * p - 5 * p**3) / 24
    u_2 = (81 * p**2 - 462 * p**4 + 385 * p**6) / 1152
    u_3 = (30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9) / 414720
    eta = s + torch.log(z / (1 + s))
    return (
        v * eta
        - 0.5 * math.log(2 * math.pi * v)
        - 0.5 * torch.log(s)
        + torch.log(1 + u_1 / v + u_2 / v**2 + u_3 / v**3)
    )


def dsf(queries_BVD: Tensor, direction_KD: Tensor, kappa_K: Tensor | None, labels_B: Tensor) -> Tensor:
    """Eq. 9-12 with (B, K) temporaries; without concentrations, the keys have the queries' mean, as in a queue."""
    mu_BD, kappa_B, r_B = fit(queries_BVD)
    if kappa_K is None:
        kappa_K = kappa_B.detach().mean().expand(len(direction_KD))
    v = queries_BVD.shape[-1] / 2 - 1
    kappa_B1, kappa_1K = kappa_B[:, None], kappa_K[None, :]
    first_BK = v * torch.log(kappa_B1 / kappa_1K)
    second_BK = _log_iv(v, kappa_1K) - _log_iv(v, kappa_B1)
    third_BK = r_B[:, None] * (kappa_B1 - kappa_1K * (mu_BD @ direction_KD.T))
    return F.cross_entropy(-(first_BK + second_BK + third_BK), labels_B)
