"""The unit sphere: projection onto it and the geodesic angle, with gradients that exist everywhere."""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from hyperspherical.checks import check_floating, check_unit

__all__ = ["angle", "at_least_float32", "autocast_off", "check_unit", "inverse_or_zero", "normalize"]

_NOTHING = nullcontext()


def at_least_float32(x: Tensor) -> Tensor:
    """Cast half precision up to float32 and leave float32 and float64 alone: spherical mathematics needs the digits."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def autocast_off(x: Tensor) -> AbstractContextManager[object]:
    """A context in which operations on x's device keep the types they are given; free where autocast is off anyway."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else _NOTHING


def inverse_or_zero(length: Tensor, eps: float = 1e-12) -> Tensor:
    """1 / length of lengths (...) at least 0; 0, with gradient zero, for lengths up to eps."""
    return torch.threshold(length, eps, math.inf).reciprocal()


def normalize(x: Tensor, eps: float = 1e-12) -> Tensor:
    """Project onto the unit sphere along the last axis.

    Args:
        x: (..., n) vectors of any length.
        eps: lengths up to this count as zero.

    Returns:
        (..., n) unit vectors. A vector of length zero stays zero and has gradient zero; the usual x / max(|x|, eps)
        has a gradient of 1 / eps there.

    Raises:
        ValueError: x is not floating point, or has no axis.
    """
    check_floating("x", x)
    if x.dim() == 0:
        raise ValueError("x must have at least one axis, got a scalar")
    return x * inverse_or_zero(torch.linalg.vector_norm(x, dim=-1, keepdim=True), eps)


def angle(x: Tensor, y: Tensor) -> Tensor:
    """Geodesic angle between unit vectors, theta = 2 atan2(|x - y|, |x + y|).

    The arc cosine of the inner product loses half of its digits near 0 and pi, where its gradient is infinite (or,
    clamped, zero). This form is exact at every angle; its gradient has length one, and is zero at coincidence and
    at opposition, where the angle has no direction to grow in.

    Args:
        x: (..., n) unit vectors.
        y: (..., n) unit vectors, same shape.

    Returns:
        (...,) angles in [0, pi], radians.

    Raises:
        ValueError: the shapes differ or have no axis, or the tensors are not floating point.
    """
    check_floating("x", x)
    check_floating("y", y)
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {tuple(x.shape)} and {tuple(y.shape)}")
    if x.dim() == 0:
        raise ValueError("x and y must have at least one axis, got scalars")
    apart = torch.linalg.vector_norm(x - y, dim=-1)
    together = torch.linalg.vector_norm(x + y, dim=-1)
    # Two zero vectors (features that died) would give atan2(0, 0), whose gradient is not a number.
    together = torch.where((apart == 0) & (together == 0), 1.0, together)
    return 2.0 * torch.atan2(apart, together)
