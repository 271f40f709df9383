"""Bessel functions and the normaliser of the von Mises-Fisher density: exact, differentiable, for every n >= 2.

The density on the unit sphere of R^n is C_n(kappa) exp(kappa mu.x), with v = n/2 - 1 and

    C_n(kappa) = kappa^v / ((2 pi)^(n/2) I_v(kappa)),   A_n(kappa) = I_(v+1)(kappa) / I_v(kappa) = -d log C_n / d kappa.

Everything is evaluated in float64 and returned in the dtype of the input (float32 for half precision), whatever
autocast says; nothing leaves the device. Accuracy is promised for concentrations 0 ... 1e8, and finite values up to
1e15; A_n is odd and log C_n even in kappa, and a value that is not a number is handed through. The approximations of
the vMF paper (Eq. 9-12) stand at the end under names that begin with `published_`.
"""

import math

import torch
from torch import Tensor

from hyperspherical.checks import check_at_least, check_floating
from hyperspherical.debye import (
    LogScaled,
    NormalizerDifference,
    NormalizerStep,
    Ratio,
    ratio_slope,
    rho_and_parts,
)


def _result_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _order(dim: int) -> float:
    check_at_least("dim", dim, 2)
    return dim / 2 - 1


def log_iv(order: float, x: Tensor) -> Tensor:
    """Logarithm of the modified Bessel function of the first kind, log I_order(x).

    Args:
        order: a real number, at least 0.
        x: (...) arguments, at least 0.

    Returns:
        (...) log I_order(x); minus infinity at x = 0 unless the order is 0.

    Raises:
        ValueError: order is negative or not finite, or x is not floating point.
    """
    check_floating("x", x)
    if not 0 <= order < math.inf:
        raise ValueError(f"order must be finite and at least 0, got {order}")
    order = float(order)
    x64 = x.double()
    value: Tensor = LogScaled.apply(x64, order)[0]
    if order > 0:
        value = value + order * torch.log(x64)
    return value.to(_result_dtype(x))


def mean_resultant_length(kappa: Tensor, dim: int) -> Tensor:
    """A_n(kappa) = I_(n/2)(kappa) / I_(n/2-1)(kappa), the length of the mean of a vMF distribution.

    Args:
        kappa: (...) concentrations.
        dim: n, the dimension of the space that holds the sphere.

    Returns:
        (...) values in [0, 1), non-decreasing in kappa; 1 where 1 - A is below the resolution of the dtype.

    Raises:
        ValueError: dim < 2, or kappa is not floating point.
    """
    check_floating("kappa", kappa)
    value: Tensor = Ratio.apply(kappa.double(), _order(dim))
    return value.to(_result_dtype(kappa))


def mean_resultant_slope(kappa: Tensor, dim: int) -> Tensor:
    """dA_n / dkappa, positive, and relatively exact where 1 - A^2 - (n - 1) A / kappa cancels.

    Args:
        kappa: (...) concentrations.
        dim: n.

    Returns:
        (...) slopes; 1 / n at kappa = 0.

    Raises:
        ValueError: dim < 2, or kappa is not floating point.
    """
    check_floating("kappa", kappa)
    return ratio_slope(kappa.double(), _order(dim)).to(_result_dtype(kappa))


def mean_resultant_quotient(kappa_squared: Tensor, dim: int) -> Tensor:
    """A_n(kappa) / kappa as a smooth function of kappa^2.

    The mean of a vMF distribution with natural parameter z = kappa mu is z times this; unlike A_n(kappa) mu it has
    the right gradient at z = 0.

    Args:
        kappa_squared: (...) squared concentrations.
        dim: n.

    Returns:
        (...) quotients; 1 / n at 0.

    Raises:
        ValueError: dim < 2, or kappa_squared is not floating point.
    """
    check_floating("kappa_squared", kappa_squared)
    return rho_and_parts(kappa_squared.double(), _order(dim))[0].to(_result_dtype(kappa_squared))


def log_vmf_normalizer(kappa: Tensor, dim: int) -> Tensor:
    """log C_n(kappa), with derivative -A_n(kappa).

    Args:
        kappa: (...) concentrations.
        dim: n.

    Returns:
        (...) log C_n; at kappa = 0 minus the logarithm of the sphere's area.

    Raises:
        ValueError: dim < 2, or kappa is not floating point.
    """
    check_floating("kappa", kappa)
    scaled: Tensor = LogScaled.apply(kappa.double(), _order(dim))[0]
    return (-0.5 * dim * math.log(2 * math.pi) - scaled).to(_result_dtype(kappa))


def log_vmf_normalizer_difference(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """log C_n(a) - log C_n(b) without cancellation, however close or large a and b are.

    Args:
        a: (...) concentrations.
        b: (...) concentrations, same shape as a or broadcastable against it.
        dim: n.

    Returns:
        (...) differences, positive where a < b.

    Raises:
        ValueError: dim < 2, or a or b is not floating point.
    """
    check_floating("a", a)
    check_floating("b", b)
    a64, b64 = a.double(), b.double()
    value: Tensor = NormalizerDifference.apply(a64, b64, _order(dim))[0]
    return value.to(torch.promote_types(_result_dtype(a), _result_dtype(b)))


def log_vmf_normalizer_step(kappa_squared: Tensor, increment: Tensor, dim: int) -> Tensor:
    """log C_n(sqrt(t)) - log C_n(sqrt(t + increment)) for t = kappa^2: the summand of the vMF loss (Eq. 13).

    There |w + beta z|^2 = |w|^2 + (beta^2 + 2 beta w.z), and the increment is known to full relative precision,
    which the difference of two rounded concentrations is not. Smooth at t = 0 and at t + increment = 0.

    Args:
        kappa_squared: (...) t, squared concentrations.
        increment: (...) broadcastable against t, with t + increment >= 0 up to rounding.
        dim: n.

    Returns:
        (...) differences, in the dtype of `increment` (float32 for half precision).

    Raises:
        ValueError: dim < 2, or an argument is not floating point.
    """
    check_floating("kappa_squared", kappa_squared)
    check_floating("increment", increment)
    increment = increment.to(_result_dtype(increment))
    value: Tensor = NormalizerStep.apply(kappa_squared, increment, _order(dim))[0]
    return value


# ---------------------------------------------------------------------------------------------------------------------
# The approximations of the vMF paper, with a = (n - 1) / 2 and b = (n + 1) / 2.


def mean_resultant_bounds(kappa: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The lower and the upper bound of A_n(kappa) of Eq. 9, for concentrations (...)."""
    check_floating("kappa", kappa)
    check_at_least("dim", dim, 2)
    kappa64, a, b = kappa.double(), (dim - 1) / 2, (dim + 1) / 2
    t, dtype = kappa64.square(), _result_dtype(kappa)
    lower, upper = (kappa64 / (a + torch.sqrt(q * q + t)) for q in (b, a))
    return lower.to(dtype), upper.to(dtype)


def published_mean_resultant_quotient(kappa_squared: Tensor, dim: int) -> Tensor:
    """Eq. 10 over kappa as a smooth function of kappa^2 (see `mean_resultant_quotient`)."""
    check_floating("kappa_squared", kappa_squared)
    check_at_least("dim", dim, 2)
    t, a, b = kappa_squared.double(), (dim - 1) / 2, (dim + 1) / 2
    quotient = 0.5 * (1 / (a + torch.sqrt(b * b + t)) + 1 / (a + torch.sqrt(a * a + t)))
    return quotient.to(_result_dtype(kappa_squared))


def published_mean_resultant_length(kappa: Tensor, dim: int) -> Tensor:
    """The paper's approximation of A_n(kappa), the mean of its two bounds (Eq. 10), for concentrations (...)."""
    check_floating("kappa", kappa)
    kappa64 = kappa.double()
    return (kappa64 * published_mean_resultant_quotient(kappa64.square(), dim)).to(_result_dtype(kappa))


def published_log_vmf_normalizer(kappa: Tensor, dim: int) -> Tensor:
    """The paper's approximation of log C_n(kappa) without its unknown constant eta (Eq. 12), for kappa (...)."""
    check_floating("kappa", kappa)
    check_at_least("dim", dim, 2)
    t, a = kappa.double().square(), (dim - 1) / 2
    roots = [torch.sqrt(q * q + t) for q in (a, (dim + 1) / 2)]
    return torch.stack([0.5 * (a * torch.log(a + s) - s) for s in roots]).sum(dim=0).to(_result_dtype(kappa))


def published_log_vmf_normalizer_step(kappa_squared: Tensor, increment: Tensor, dim: int) -> Tensor:
    """`log_vmf_normalizer_step` with the paper's approximation (Eq. 12), its differences rationalised."""
    check_floating("kappa_squared", kappa_squared)
    check_floating("increment", increment)
    check_at_least("dim", dim, 2)
    t, change, a = kappa_squared.double(), increment.double(), (dim - 1) / 2
    value = torch.zeros_like(change)
    for q in (a, (dim + 1) / 2):
        before = torch.sqrt(q * q + t)
        rise = change / (before + torch.sqrt(q * q + (t + change).clamp_min(0.0)))
        value = value + 0.5 * (rise - a * torch.log1p(rise / (a + before)))
    return value.to(_result_dtype(increment))


def published_log_vmf_normalizer_difference(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """Eq. 12 at a minus Eq. 12 at b without cancellation; shapes as in `log_vmf_normalizer_difference`."""
    check_floating("a", a)
    check_floating("b", b)
    a64, b64 = a.double(), b.double()
    value = published_log_vmf_normalizer_step(a64.square(), (b64 - a64) * (b64 + a64), dim)
    return value.to(torch.promote_types(_result_dtype(a), _result_dtype(b)))
