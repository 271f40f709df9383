"""The vMF normaliser in single precision at the cost of a few elementary functions: what the vMF loss runs on.

With v = n/2 - 1, t = kappa^2, a scale nu > v, s = sqrt(1 + t / nu^2) and q = 1 / (1 + s) in (0, 1/2],

    log(I_v(kappa) / kappa^v) = nu s - (v + 1/2) log(1 + s) + R(q) + constant,      A_n(kappa) / kappa = q h(q) / nu,

and R and h are so smooth that polynomials of degree 5 to 12 give them to single precision for every n and kappa. They
are fitted once per dimension to the exact functions of `debye`.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hyperspherical.constant import constant
from hyperspherical.debye import log_scaled

_POINTS = 256
_LARGEST_DEGREE = 16
_TOLERANCE = 2e-7


class _Fit(NamedTuple):
    nu: float
    remainder: tuple[float, ...]
    """R, lowest power first."""
    quotient: tuple[float, ...]
    """h, lowest power first."""


@constant
def _fit(dim: int) -> _Fit:
    order = dim / 2 - 1
    nu = order + (2 if dim < 16 else 0)
    x = torch.cos((torch.arange(_POINTS, dtype=torch.float64, device="cpu") + 0.5) * (math.pi / _POINTS))
    q = (1 + x) / 4
    s = 1 / q - 1
    scaled, rho = log_scaled(nu * torch.sqrt((s - 1) * (s + 1)), order)
    remainder = scaled - nu * s + (order + 0.5) * torch.log1p(s)
    return _Fit(nu, _polynomial(x, remainder - remainder.mean()), _polynomial(x, rho * nu / q))


def _polynomial(x: Tensor, values: Tensor) -> tuple[float, ...]:
    """Coefficients in q = (1 + x) / 4, lowest power first, of the shortest Chebyshev fit within the tolerance."""
    degrees = torch.arange(_LARGEST_DEGREE + 1, dtype=torch.float64, device="cpu")
    basis = torch.cos(degrees[:, None] * torch.acos(x))
    series = basis @ values * (2 / len(x))
    series[0] /= 2
    size = float(values.abs().max().clamp_min(1.0))
    rest = series.abs().flip(0).cumsum(0).flip(0)  # what is lost by leaving out everything from a degree on
    kept = max(2, int((rest > _TOLERANCE * size).sum()))
    polynomials = [[1.0], [-1.0, 4.0]]  # T_k(4 q - 1), lowest power first
    while len(polynomials) < kept:
        last, before = polynomials[-1], polynomials[-2]
        new = [-2 * c for c in last] + [0.0]
        for power, c in enumerate(last):
            new[power + 1] += 8 * c
        for power, c in enumerate(before):
            new[power] -= c
        polynomials.append(new)
    coefficients = [0.0] * kept
    for weight, polynomial in zip(series[:kept].tolist(), polynomials, strict=True):
        for power, c in enumerate(polynomial):
            coefficients[power] += weight * c
    return tuple(coefficients)


@constant
def _constants(coefficients: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    return torch.tensor(coefficients[::-1], dtype=dtype, device=device).unbind()


@constant
def _matrix(dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(3, K) coefficients of R, h and d(q h)/dq, lowest power first."""
    fit = _fit(dim)
    slope = tuple((power + 1) * c for power, c in enumerate(fit.quotient))
    longest = max(len(fit.remainder), len(slope))
    rows = [row + (0.0,) * (longest - len(row)) for row in (fit.remainder, fit.quotient, slope)]
    return torch.tensor(rows, dtype=dtype, device=device)


_matrix = torch.compiler.assume_constant_result(_matrix)


def _horner_(out: Tensor, coefficients: tuple[float, ...], q: Tensor) -> Tensor:
    constants = _constants(coefficients, q.dtype, q.device)
    torch.addcmul(constants[1], q, constants[0], out=out)
    for c in constants[2:]:
        torch.addcmul(c, out, q, out=out)
    return out


class Point(NamedTuple):
    """What is known of the normaliser at squared concentrations t (...)."""

    quotient: Tensor
    """A_n(kappa) / kappa"""
    quotient_slope: Tensor
    """its derivative in t"""
    s: Tensor
    q: Tensor
    remainder: Tensor
    """R(q)"""


def at(t: Tensor, dim: int) -> Point:
    """Evaluate at t = kappa^2 (P,), few numbers."""
    fit = _fit(dim)
    nu, longest = fit.nu, max(len(fit.remainder), len(fit.quotient))
    s = torch.sqrt(t * nu**-2 + 1)
    q = 1 / (s + 1)
    powers_KP = torch.cat([torch.ones_like(q)[None], q.expand(longest - 1, -1)]).cumprod(dim=0)
    remainder, h, slope = (_matrix(dim, t.dtype, t.device) @ powers_KP).unbind()
    return Point(q * h * (1 / nu), slope * q.square() / s * (-0.5 * nu**-3), s, q, remainder)


def normalizer_step(point: Point, increment: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """log C_n(sqrt(t)) - log C_n(sqrt(t + increment)), and its derivative in the increment.

    Args:
        point: of t (Y,).
        increment: (Y, ...) with t + increment >= 0 up to rounding.
        dim: n.

    Returns:
        (Y, ...) differences, to about 1e-6 of max(1, |value|) (4e-6 on the circle), and A_n(kappa) / (2 kappa) at
        kappa^2 = t + increment.
    """
    fit = _fit(dim)
    nu = fit.nu
    shape = (-1,) + (1,) * (increment.dim() - 1)
    before, ratio, remainder = (x.view(shape) for x in (point.s, point.q * nu**-2, point.remainder))
    # Six tensors of the increment's size, used again and again: fresh memory costs more than the arithmetic.
    # (t + increment) / nu^2 + 1 is at least 1 but for rounding.
    after = torch.add(before.square(), increment, alpha=nu**-2).clamp_min_(1.0).sqrt_()
    rise = torch.add(after, before)
    torch.div(increment, rise, out=rise)  # nu^2 (after - before), without cancellation
    # log(1 + x) with the rounding of 1 + x made good; torch's own is ten times slower than log in float32.
    x = rise * ratio
    sum_ = x + 1
    value = torch.log(sum_).sub_(sum_.sub_(1).sub_(x))
    value.mul_(-(dim - 1) / 2).add_(rise, alpha=1 / nu)
    q = after.add_(1).reciprocal_()
    value.add_(_horner_(x, fit.remainder, q)).sub_(remainder)
    return value, _horner_(sum_, fit.quotient, q).mul_(q).mul_(0.5 / nu)


class LogNormalizerRise(torch.autograd.Function):
    """log C_n(kappa) - log C_n(0) for float32 concentrations (P,), to about 1e-6 of max(1, |value|)."""

    @staticmethod
    def forward(ctx: Any, kappa_P: Tensor, dim: int) -> Tensor:
        fit = _fit(dim)
        exact_P = kappa_P.double()
        point = at(exact_P.square(), dim)
        ctx.save_for_backward(exact_P * point.quotient)
        at_zero = sum(c * 0.5**power for power, c in enumerate(fit.remainder))
        fall_P = torch.log((point.s + 1) / 2).mul_((dim - 1) / 2).sub_(point.remainder - at_zero)
        return fall_P.sub_(point.s - 1, alpha=fit.nu).to(kappa_P.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_P: Tensor) -> tuple[Tensor, None]:
        (ratio_P,) = ctx.saved_tensors
        return (-ratio_P * grad_P).to(grad_P.dtype), None
