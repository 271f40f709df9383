"""The vMF softmax loss and its gradient in one pass: the engine under `VonMisesFisherLoss`.

With z = kappa_z mu_z the natural parameter of an embedding, w_j those of the classes and t_j = |w_j|^2 (Eq. 13),

    L = mean over b, s of log sum_j exp(f_j(z_bs))  -  beta mean over b of E[w_y].E[z_b],
    f_j(z) = log C(sqrt(t_j)) - log C(sqrt(t_j + beta^2 + 2 beta w_j.z)),      z_bs = cos(phi) mu_b + sin(phi) tangent.

What makes it fast, and lean in memory:

- Draws come as antithetic pairs, two angles with one tangent and its opposite. Each draw has the right distribution,
  hence loss and gradient have the same expectation; their variance falls (to between 0.01 and 0.6 of that of as many
  independent draws), and so do the random numbers and the matrix products, to one half.
- The logits see of a tangent only its inner products with the class vectors. With Y + 1 < n it is drawn in the span of
  the class vectors and of mu, the rest of it only by its length. The gradient is then the conditional expectation
  given what is seen: unbiased, and less noisy.
- Inner products and not vectors are combined: W z = cos(phi) W mu + sin(phi) W tangent, one matrix product for W mu,
  one for W tangent, one for the gradient of W.
- The gradient is computed together with the value, from chunks of draws that fit a processor's cache; no tensor over
  draws, batch and classes is kept for the backward pass.

Gradients are implicit reparameterisation in kappa (see `samplers`) and parallel transport of the tangent in mu:
dz = cos dmu - sin (tangent.dmu) mu, and dz/dkappa = (-sin mu + cos tangent) dphi/dkappa.

Legend: B batch, N embedding dimension n, Y classes, S draws, A of a pair (1 or 2), H = S / A pairs, M coordinates
of the span that is drawn in.
"""

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hyperspherical import bessel, debye, fitted
from hyperspherical.samplers import angle_at, draw_tangents
from hyperspherical.sphere import normalize

_CHUNK = 1 << 17  # numbers in a tensor over draws, batch and classes


class Normalizer(NamedTuple):
    """The two functions of log C that the loss is made of."""

    at: Callable[[Tensor, int], Any]
    """(t = kappa^2, n) -> A(kappa) / kappa, its derivative in t, and what `step` needs: a tuple of tensors like t"""
    step: Callable[[Any, Tensor, int], tuple[Tensor, Tensor]]
    """(what `at` gave for t (Y,), increment (Y, ...), n) -> log C(sqrt(t)) - log C(sqrt(t + increment)), its slope"""


class _PlainPoint(NamedTuple):
    quotient: Tensor
    quotient_slope: Tensor
    t: Tensor


def normalizer_for(name: str, dtype: torch.dtype) -> Normalizer:
    """The functions behind "exact" (in float32: fitted to its precision) and "published" (Eq. 10 and 12)."""
    if name == "published":
        return _PUBLISHED
    return _EXACT if dtype == torch.float64 else _SINGLE


def _at(quotient: Callable[[Tensor, int], Tensor], t: Tensor, dim: int) -> _PlainPoint:
    with torch.enable_grad():
        t = t.detach().requires_grad_()
        value = quotient(t, dim)
        (slope,) = torch.autograd.grad(value.sum(), t)
    return _PlainPoint(value.detach(), slope, t.detach())


def _exact_step(point: _PlainPoint, increment: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    value, _, rho = debye.normalizer_step(_column(point.t, increment), increment, dim / 2 - 1)
    return value, rho / 2


def _published_step(point: _PlainPoint, increment: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    t = _column(point.t, increment)
    rho = bessel.published_mean_resultant_quotient((t + increment).clamp_min(0.0), dim)
    return bessel.published_log_vmf_normalizer_step(t, increment, dim), rho / 2


def _column(x_Y: Tensor, like: Tensor) -> Tensor:
    return x_Y.view(-1, *[1] * (like.dim() - 1))


_EXACT = Normalizer(partial(_at, bessel.mean_resultant_quotient), _exact_step)
_PUBLISHED = Normalizer(partial(_at, bessel.published_mean_resultant_quotient), _published_step)
_SINGLE = Normalizer(fitted.at, fitted.normalizer_step)


class Draws(NamedTuple):
    """Reparameterised draws z of vMF distributions with mean directions mu."""

    cos_AHB: Tensor
    """cos(phi); phi is negative for the second of a pair"""
    sin_AHB: Tensor
    """sin(phi)"""
    slope_AHB: Tensor
    """dphi/dkappa"""
    tangent_HBM: Tensor
    """coordinates of the pairs' tangents: z = cos(phi) mu + sin(phi) tangent"""


class Span(NamedTuple):
    """Coordinates of everything that inner products with the class vectors depend on.

    Orthonormal axes: those of the class vectors' span, and one more for every embedding, along the rest of its mean
    direction. Without `basis_NY` the coordinates are the given ones.
    """

    classes_YM: Tensor
    mean_BM: Tensor
    basis_NY: Tensor | None = None
    rest_BN: Tensor | None = None
    """unit vectors, the last axes"""

    @property
    def hidden(self) -> int:
        """Number of coordinates left out."""
        return 0 if self.rest_BN is None else self.rest_BN.shape[1] - self.mean_BM.shape[1]


def span_of(w_YN: Tensor, mean_BN: Tensor) -> Span:
    """The smallest coordinates that hold the class vectors and a mean direction. Class vectors may coincide."""
    classes, dim = w_YN.shape
    if classes + 1 >= dim * 0.75:  # little would be saved
        return Span(w_YN, mean_BN)
    basis_NY, triangle_YY = torch.linalg.qr(w_YN.T)
    inside_BY = mean_BN @ basis_NY
    outside_BN = mean_BN - inside_BY @ basis_NY.T
    length_B1 = torch.linalg.vector_norm(outside_BN, dim=1, keepdim=True)
    return Span(F.pad(triangle_YY.T, (0, 1)), torch.cat([inside_BY, length_B1], dim=1), basis_NY, normalize(outside_BN))


def draw(
    kappa_B: Tensor, span: Span, num_samples: int, antithetic: bool, generator: torch.Generator | None = None
) -> Draws:
    """Draw `num_samples` of every distribution; in antithetic pairs these must be even in number."""
    dim, batch = span.mean_BM.shape[1] + span.hidden, len(kappa_B)
    of_a_pair = 2 if antithetic else 1
    xi_SB = torch.randn(num_samples, batch, dtype=kappa_B.dtype, device=kappa_B.device, generator=generator)
    phi_SB, slope_SB = angle_at(kappa_B, xi_SB, dim)
    phi_AHB, slope_AHB = phi_SB.view(of_a_pair, -1, batch), slope_SB.view(of_a_pair, -1, batch)
    if antithetic:  # the opposite tangent is the opposite angle
        phi_AHB[1].neg_()
        slope_AHB[1].neg_()
    tangent_HBM = draw_tangents(span.mean_BM.expand(phi_AHB.shape[1], -1, -1), generator, span.hidden)
    return Draws(torch.cos(phi_AHB), torch.sin(phi_AHB), slope_AHB, tangent_HBM)


class ExpectedSoftmax(torch.autograd.Function):
    """The loss, a scalar, with fresh draws; see `expected_softmax`."""

    @staticmethod
    def forward(
        ctx: Any,
        z_BN: Tensor,
        w_YN: Tensor,
        beta: Tensor,
        labels_B: Tensor,
        num_samples: int,
        antithetic: bool,
        normalizer: Normalizer,
        generator: torch.Generator | None,
        needs_gradient: bool,
    ) -> Tensor:
        embeddings = Polar(z_BN, *polar(z_BN))
        span = span_of(w_YN, embeddings.direction)
        draws = draw(embeddings.length, span, num_samples, antithetic, generator)
        total, gradients = total_and_gradients(
            embeddings, w_YN, beta, labels_B, span, draws, normalizer, needs_gradient
        )
        ctx.count = num_samples * len(z_BN)
        if gradients is not None:
            ctx.save_for_backward(*gradients)
        loss: Tensor = total / ctx.count
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_z_BN, grad_w_YN, grad_beta = ctx.saved_tensors
        grad = grad / ctx.count
        return grad * grad_z_BN, grad * grad_w_YN, grad * grad_beta, None, None, None, None, None, None


def expected_softmax(
    z_BN: Tensor,
    w_YN: Tensor,
    beta: Tensor,
    labels_B: Tensor,
    num_samples: int,
    antithetic: bool,
    normalizer: Normalizer,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The mean loss over the batch, in nats; differentiable once in z, w and beta."""
    needs_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (z_BN, w_YN, beta))
    loss: Tensor = ExpectedSoftmax.apply(
        z_BN, w_YN, beta, labels_B, num_samples, antithetic, normalizer, generator, needs_gradient
    )
    return loss


def polar(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Length, unit direction and inverse length of x (..., N).

    Where x is zero (uniform distribution: any direction will do) the first axis, and zero for the inverse.
    """
    length = torch.linalg.vector_norm(x, dim=-1)
    inverse = torch.where(length > 1e-12, 1 / length.clamp_min(1e-12), 0.0)
    direction = x * inverse[..., None]
    direction[..., 0] += inverse == 0
    return length, direction, inverse


class Polar(NamedTuple):
    """Vectors x (..., N) with what `polar` says of them."""

    vector: Tensor
    length: Tensor
    direction: Tensor
    inverse: Tensor


class _Sums(NamedTuple):
    """What a chunk of draws adds to the loss and its gradients."""

    total: Tensor
    weight_Y: Tensor
    """softmax"""
    slope_Y: Tensor
    """dL / d increment"""
    along_YB: Tensor
    """dL / d(W mu)"""

    def __add__(self, other: "_Sums") -> "_Sums":  # type: ignore[override]
        return _Sums(*(a + b for a, b in zip(self, other, strict=True)))


def total_and_gradients(
    embeddings: Polar,
    w_YN: Tensor,
    beta: Tensor,
    labels_B: Tensor,
    span: Span,
    draws: Draws,
    normalizer: Normalizer,
    needs_gradient: bool = True,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """The sum over draws and batch of the loss for given draws, and its gradients in z, w and beta."""
    z_BN = embeddings.vector
    batch, dim = z_BN.shape
    classes, coordinates = span.classes_YM.shape
    of_a_pair, pairs, _ = draws.cos_AHB.shape
    t_B, t_Y = embeddings.length.square(), w_YN.square().sum(dim=1)
    points = normalizer.at(torch.cat([t_B, t_Y]), dim)
    point_Y = type(points)(*(x[batch:] for x in points))
    q_B, q_Y = points.quotient.split((batch, classes))
    q_slope_B, q_slope_Y = points.quotient_slope.split((batch, classes))
    tangents = draws.tangent_HBM.reshape(-1, coordinates)
    across_YHB = (span.classes_YM @ tangents.T).view(classes, pairs, batch)
    along_Y11B = (span.classes_YM @ span.mean_BM.T)[:, None, None]
    twice, squared = 2 * beta, beta.square()
    cos_AHB, sin_AHB = twice * draws.cos_AHB, twice * draws.sin_AHB
    by_along_AHB, by_across_AHB = torch.empty_like(cos_AHB), torch.empty_like(cos_AHB)

    def sums(pairs: slice) -> _Sums:
        across, cos, sin = across_YHB[:, None, pairs], cos_AHB[:, pairs], sin_AHB[:, pairs]
        increment = torch.addcmul(squared, along_Y11B, cos).addcmul_(across, sin)  # |w + beta z|^2 - |w|^2
        value, slope = normalizer.step(point_Y, increment, dim)
        log_softmax = value.log_softmax(dim=0)
        total = (value[0] - log_softmax[0]).sum()
        if not needs_gradient:
            return _Sums(total, t_Y, t_Y, along_Y11B)
        weight = torch.exp(log_softmax, out=value)
        weight_Y = weight.sum(dim=(1, 2, 3))
        weight = weight.mul_(slope)
        product = torch.mul(weight, along_Y11B, out=increment)
        by_along_AHB[:, pairs] = product.sum(dim=0)
        by_across_AHB[:, pairs] = torch.mul(weight, across, out=product).sum(dim=0)
        along_YB = torch.mul(weight, cos, out=product).sum(dim=(1, 2))
        across_YHB[:, pairs] = torch.mul(weight, sin, out=product).sum(dim=1)  # no longer needed for anything else
        return _Sums(total, weight_Y, weight.sum(dim=(1, 2, 3)), along_YB)

    step = max(1, _CHUNK // (classes * of_a_pair * batch))
    chunks = (sums(slice(first, first + step)) for first in range(0, pairs, step))
    total, weight_Y, slope_Y, along_YB = reduce(add, chunks)

    w_BN, qw_B = w_YN[labels_B], q_Y[labels_B]
    samples = of_a_pair * pairs
    inner_B = (z_BN * w_BN).sum(dim=1)
    pull_B = q_B * qw_B * samples
    attraction = (pull_B * inner_B).sum()
    total = total - beta * attraction
    if not needs_gradient:
        return total, None

    # The expected logarithm, in the coordinates of the span.
    grad_w_YM = torch.addmm(along_YB @ span.mean_BM, across_YHB.view(classes, -1), tangents)
    transport_HB1 = (sin_AHB * by_along_AHB).sum(dim=0)[..., None]
    transport_BM = transport_HB1[0] * draws.tangent_HBM[0]
    for pair in range(1, pairs):
        transport_BM.addcmul_(transport_HB1[pair], draws.tangent_HBM[pair])
    if span.basis_NY is None or span.rest_BN is None:
        grad_w_YN, transport_BN = grad_w_YM, transport_BM
    else:
        last_YB = along_YB * span.mean_BM[:, -1] + (across_YHB * draws.tangent_HBM[..., -1]).sum(dim=1)
        grad_w_YN = torch.addmm(last_YB @ span.rest_BN, grad_w_YM[:, :-1], span.basis_NY.T)
        transport_BN = torch.addmm(transport_BM[:, -1:] * span.rest_BN, transport_BM[:, :-1], span.basis_NY.T)
    grad_mean_BN = torch.addmm(transport_BN, along_YB.T, w_YN, beta=-1)
    turn_AHB = cos_AHB * by_across_AHB - sin_AHB * by_along_AHB
    grad_kappa_B = (turn_AHB * draws.slope_AHB).sum(dim=(0, 1))
    grad_w_YN.addcmul_(w_YN, (2 * slope_Y - q_Y * weight_Y)[:, None])
    by_inner = torch.addcmul(cos_AHB * by_along_AHB, sin_AHB, by_across_AHB).sum()
    grad_beta = by_inner / beta + twice * slope_Y.sum() - attraction

    # From kappa and mu to z = kappa mu, where z = 0 has no direction to turn.
    radial_B = grad_kappa_B - (grad_mean_BN * embeddings.direction).sum(dim=1) * embeddings.inverse
    grad_z_BN = torch.addcmul(grad_mean_BN * embeddings.inverse[:, None], embeddings.direction, radial_B[:, None])

    # The attraction, S beta q(z) q(w) z.w.
    pull_B1 = (beta * pull_B)[:, None]
    bend_B = inner_B * (twice * samples)
    grad_z_BN.addcmul_(w_BN, pull_B1, value=-1).addcmul_(z_BN, (bend_B * q_slope_B * qw_B)[:, None], value=-1)
    by_class_BN = torch.addcmul(z_BN * pull_B1, w_BN, (bend_B * q_slope_Y[labels_B] * q_B)[:, None])
    grad_w_YN.index_add_(0, labels_B, by_class_BN, alpha=-1)
    return total, (grad_z_BN, grad_w_YN, grad_beta)
