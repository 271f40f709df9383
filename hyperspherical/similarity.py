"""Similarities (queries, keys) -> logits: cosine, averaged views, and the divergence of fitted distributions (DSF).

Legend: B queries, K keys, V views, D dimension; `...` any leading axes.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from hyperspherical.bessel import log_vmf_normalizer, log_vmf_normalizer_step, mean_resultant_length
from hyperspherical.checks import (
    check_at_least,
    check_between,
    check_choice,
    check_features,
    check_floating,
    check_shape,
)
from hyperspherical.fitted import LogNormalizerRise
from hyperspherical.sphere import at_least_float32, autocast_off, inverse_or_zero, normalize

DIVERGENCES = ("kl", "jeffreys", "renyi")


def cosine_similarity(queries: Tensor, keys: Tensor) -> Tensor:
    """Cosines of all pairs: queries (B, D) and keys (K, D) -> (B, K).

    Raises:
        ValueError: wrong shapes or types.
    """
    check_features("queries", queries, ("B", "D"))
    check_features("keys", keys, ("K", queries.shape[1]))
    with autocast_off(queries):
        q_BD, k_KD = at_least_float32(queries), at_least_float32(keys)
        return normalize(q_BD) @ normalize(k_KD.to(q_BD.dtype)).T


def feature_average_similarity(queries: Tensor, keys: Tensor) -> Tensor:
    """Feature_avg of the DSF paper: inner products of the un-normalised means of unit views.

    The mean over all V^2 pairs of views of their cosines (Appendix B).

    Args:
        queries: (B, V, D) views.
        keys: (K, V', D) views.

    Returns:
        (B, K) similarities in [-1, 1].

    Raises:
        ValueError: wrong shapes or types.
    """
    check_features("queries", queries, ("B", "V", "D"))
    check_features("keys", keys, ("K", "V", queries.shape[2]))
    with autocast_off(queries):
        q_BD, k_KD = (normalize(at_least_float32(views)).mean(dim=1) for views in (queries, keys))
        return q_BD @ k_KD.to(q_BD.dtype).T


class VonMisesParameters(NamedTuple):
    """Fitted vMF distributions, one a row: what a queue stores."""

    mean_direction: Tensor
    """(..., D) unit vectors."""
    concentration: Tensor
    """(...) kappa, divided by D where the fit normalises by dimension."""
    mean_resultant: Tensor | None = None
    """(...) the (shrunk) mean resultant length of the fit; only queries need it."""


def fit_von_mises_fisher(
    views: Tensor, shrinkage: float = 0.95, normalise_by_dimension: bool = True
) -> VonMisesParameters:
    """Fit one vMF distribution to the views of each image (DSF, Eq. 3-8).

    R = shrinkage * |mean of the unit views|, kappa = R (D - R^2) / (1 - R^2) (Banerjee), over D if asked for.

    Args:
        views: (..., V, D) embeddings of any length, V >= 1.
        shrinkage: gamma in (0, 1]; below 1 it keeps kappa finite when all views coincide.
        normalise_by_dimension: divide kappa by D (Eq. 8).

    Raises:
        ValueError: fewer than two axes, D < 2, or shrinkage out of range.
    """
    check_floating("views", views)
    if views.dim() < 2 or views.shape[-2] < 1 or views.shape[-1] < 2:
        raise ValueError(f"views must have shape (..., V, D) with V >= 1 and D >= 2, got {tuple(views.shape)}")
    if not 0 < shrinkage <= 1:
        raise ValueError(f"shrinkage must lie in (0, 1], got {shrinkage}")
    dim = views.shape[-1]
    with autocast_off(views):
        mean = normalize(at_least_float32(views)).mean(dim=-2)
        length = torch.linalg.vector_norm(mean, dim=-1, keepdim=True)
        resultant = shrinkage * length.squeeze(-1)
        # (D - R^2) / (1 - R^2) = 1 + (D - 1) / (1 - R^2)
        scale = 1 / dim if normalise_by_dimension else 1.0
        spread = (1 - resultant.square()).clamp_min(1e-8)
        kappa = torch.addcdiv(scale * resultant, resultant, spread, value=scale * (dim - 1))
        return VonMisesParameters(mean * inverse_or_zero(length), kappa, resultant)


def _checked(name: str, given: VonMisesParameters, allowed: str = "VonMisesParameters") -> VonMisesParameters:
    """Parameters (B, D), (B,) and (B,), all in the directions' type, at least float32; ValueError for anything else."""
    if not isinstance(given, VonMisesParameters):
        raise ValueError(f"{name} must be {allowed}, got {type(given).__name__}")
    check_features(f"{name}.mean_direction", given.mean_direction, ("B", "D"))
    check_at_least(f"{name}'s dimension", given.mean_direction.shape[1], 2)
    check_features(f"{name}.concentration", given.concentration, (given.mean_direction.shape[0],))
    if given.mean_resultant is not None:
        check_features(f"{name}.mean_resultant", given.mean_resultant, (given.mean_direction.shape[0],))
    return _as_type(given, at_least_float32(given.mean_direction).dtype)


def _as_type(p: VonMisesParameters, dtype: torch.dtype) -> VonMisesParameters:
    resultant = None if p.mean_resultant is None else p.mean_resultant.to(dtype)
    return VonMisesParameters(p.mean_direction.to(dtype), p.concentration.to(dtype), resultant)


class CosineSimilarity:
    """Cosine of one query view and one key view over a temperature, with the interface of `DivergenceSimilarity`.

    Raises:
        ValueError: temperature out of range, several views per image, or queries or keys that are not parameters.
    """

    def __init__(self, temperature: float = 0.1) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature = temperature

    def fit(self, views: Tensor) -> VonMisesParameters:
        """(B, 1, D) views -> their directions, with concentration 1."""
        check_features("views", views, ("B", "V", "D"))
        if views.shape[1] != 1:
            raise ValueError(f"views must be one per image for the cosine, got {views.shape[1]}")
        direction_BD = normalize(at_least_float32(views[:, 0]))
        return VonMisesParameters(direction_BD, torch.ones_like(direction_BD[:, 0]))

    def __call__(self, queries: VonMisesParameters, keys: VonMisesParameters) -> Tensor:
        """All pairs: B queries against K keys -> (B, K) logits."""
        q, k = _checked("queries", queries), _checked("keys", keys)
        return cosine_similarity(q.mean_direction, k.mean_direction) / self.temperature

    def pairwise(self, queries: VonMisesParameters, keys: VonMisesParameters) -> Tensor:
        """Row by row: B queries against B keys -> (B,) logits."""
        q, k = _checked("queries", queries), _checked("keys", keys)
        check_shape("keys", k.mean_direction, tuple(q.mean_direction.shape))
        return (q.mean_direction * k.mean_direction).sum(dim=-1) / self.temperature


class DivergenceSimilarity:
    """Distribution-to-distribution similarity: minus a divergence of fitted vMF distributions over a temperature.

        KL(q || k) = log C(kappa_q) - log C(kappa_k) + A_q (kappa_q - kappa_k mu_q.mu_k)          (DSF, Eq. 9-12)

    The logits are one matrix product, a term per row and a term per column.

    Args:
        temperature: divides the divergence.
        shrinkage, normalise_by_dimension: of the fit, where views are given.
        mean_length: "published" takes the shrunk mean resultant length of the fit for A_q. With kappa over D that is
            not a divergence: it can be negative. "exact" takes A_D(kappa_q), the true KL of the two distributions.
        divergence: "kl"; "jeffreys", the sum of both directions; "renyi" of `order`, in closed form, whose
            normaliser of every pair costs (B, K) temporaries.
        order: of the Renyi divergence, in (0, 1); 0.5 is twice the Bhattacharyya distance.

    Raises:
        ValueError: an option out of range; queries or keys that are neither views (B, V, D) nor parameters.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        shrinkage: float = 0.95,
        normalise_by_dimension: bool = True,
        mean_length: str = "published",
        divergence: str = "kl",
        order: float = 0.5,
    ) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        if not 0 < shrinkage <= 1:
            raise ValueError(f"shrinkage must lie in (0, 1], got {shrinkage}")
        check_choice("mean_length", mean_length, ("published", "exact"))
        check_choice("divergence", divergence, DIVERGENCES)
        check_between("order", order, 0.0, 1.0)
        self.temperature, self.shrinkage, self.order = temperature, shrinkage, order
        self.normalise_by_dimension, self.mean_length, self.divergence = normalise_by_dimension, mean_length, divergence

    def fit(self, views: Tensor) -> VonMisesParameters:
        """(B, V, D) views -> fitted parameters, with this similarity's options."""
        return fit_von_mises_fisher(views, self.shrinkage, self.normalise_by_dimension)

    def __call__(self, queries: Tensor | VonMisesParameters, keys: Tensor | VonMisesParameters) -> Tensor:
        """All pairs: (B, V, D) views or parameters against (K, V, D) views or parameters -> (B, K) logits."""
        q, k = self._parameters(queries, keys)
        check_shape("keys", k.mean_direction, ("K", q.mean_direction.shape[1]))
        with autocast_off(q.mean_direction):
            if self.divergence == "renyi":
                # A tensor of its own, because a queue is overwritten before backward.
                return self._renyi(q, k, q.mean_direction @ k.mean_direction.T.clone())
            row_features, row_B, column_features, column_K = self._terms(q, k)
            scale, bias_BK = 1 / self.temperature, column_K - row_B[:, None]
            # In place: backward does not need what is overwritten, and a pass over (B, K) costs like a product.
            return bias_BK.addmm_(row_features, column_features.T, beta=scale, alpha=scale)

    def pairwise(self, queries: Tensor | VonMisesParameters, keys: Tensor | VonMisesParameters) -> Tensor:
        """Row by row: B queries against B keys -> (B,) logits, the diagonal of calling."""
        q, k = self._parameters(queries, keys)
        check_shape("keys", k.mean_direction, tuple(q.mean_direction.shape))
        with autocast_off(q.mean_direction):
            if self.divergence == "renyi":
                cosine = (q.mean_direction * k.mean_direction).sum(dim=-1)
                return self._renyi(q, k, cosine[:, None], pairs=True)[:, 0]
            row_features, row_B, column_features, column_B = self._terms(q, k)
            return ((row_features * column_features).sum(dim=-1) + column_B - row_B) / self.temperature

    def _parameters(
        self, queries: Tensor | VonMisesParameters, keys: Tensor | VonMisesParameters
    ) -> tuple[VonMisesParameters, VonMisesParameters]:
        """Parameters of both, fitted where views are given, in the queries' type."""
        both = []
        for name, given in (("queries", queries), ("keys", keys)):
            if isinstance(given, Tensor):
                check_features(name, given, ("B", "V", "D"))
                both.append(self.fit(given))
            else:
                both.append(_checked(name, given, "a tensor of views or VonMisesParameters"))
        return both[0], _as_type(both[1], both[0].mean_direction.dtype)

    def _mean_length(self, p: VonMisesParameters) -> Tensor:
        dim = p.mean_direction.shape[1]
        if self.mean_length == "exact":
            return mean_resultant_length(p.concentration, dim)
        if p.mean_resultant is not None:
            return p.mean_resultant
        # The fit inverts A_D approximately, so A_D of the raw concentration gives its resultant back.
        return mean_resultant_length(p.concentration * (dim if self.normalise_by_dimension else 1), dim)

    def _terms(self, q: VonMisesParameters, k: VonMisesParameters) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Row features, row term, column features and column term: T logits = features product + column - row."""
        mean_q, dim = self._mean_length(q), q.mean_direction.shape[1]
        row, kappa_k = mean_q * q.concentration, k.concentration
        if self.divergence == "kl":
            if kappa_k.stride(0) == 0:  # one number expanded over all keys, as for a queue
                kappa_k = kappa_k[:1]
            normalizers = self._normalizer(torch.cat([q.concentration, kappa_k]), dim)
            row_normalizer, column = normalizers.split([len(row), len(kappa_k)])
            row = row + row_normalizer
            row_features = q.mean_direction * mean_q[:, None]
            # A tensor of its own, because a queue is overwritten before backward.
            column_features = k.mean_direction * kappa_k[:, None]
        else:
            mean_k = self._mean_length(k)
            column = -mean_k * kappa_k
            row_features = torch.cat(
                [mean_q[:, None] * q.mean_direction, q.concentration[:, None] * q.mean_direction], 1
            )
            column_features = torch.cat([kappa_k[:, None] * k.mean_direction, mean_k[:, None] * k.mean_direction], 1)
        return row_features, row, column_features, column.expand(len(k.concentration))

    def _normalizer(self, kappa: Tensor, dim: int) -> Tensor:
        """log C(kappa) - log C(0): small where log C itself is large."""
        if kappa.dtype == torch.float32:
            rise: Tensor = LogNormalizerRise.apply(kappa, dim)
            return rise
        at_zero = math.lgamma(dim / 2) - math.log(2) - 0.5 * dim * math.log(math.pi)
        return log_vmf_normalizer(kappa, dim) - at_zero

    def _renyi(self, q: VonMisesParameters, k: VonMisesParameters, cosine: Tensor, pairs: bool = False) -> Tensor:
        """Minus the Renyi divergence: (log C(|order q + (1 - order) k|) - order log C(q) - ...) / (order - 1)."""
        a, dim = self.order, q.mean_direction.shape[1]
        kappa_q = q.concentration[:, None]
        kappa_k = k.concentration[:, None] if pairs else k.concentration[None, :]
        normalizer_k = self._normalizer(k.concentration, dim)
        column = normalizer_k[:, None] if pairs else normalizer_k[None, :]
        squared = (a * kappa_q).square() + ((1 - a) * kappa_k).square() + 2 * a * (1 - a) * kappa_q * kappa_k * cosine
        mixed = -log_vmf_normalizer_step(torch.zeros_like(squared[:1, :1]), squared.clamp_min(0.0), dim)
        divergence = (a * self._normalizer(q.concentration, dim)[:, None] + (1 - a) * column - mixed) / (a - 1)
        return -divergence / self.temperature
