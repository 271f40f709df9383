"""The Poincare ball of curvature -c: radius 1 / sqrt(c), distances that grow without bound towards its rim.

The curvature is an argument of every function. Closed forms throughout: no (B, K, n) tensor where (B, K) is wanted.
Whether points lie inside the ball is checked on the CPU only.

Legend: B rows, K columns, n dimension; `...` any leading axes.
"""

import math

import torch
from torch import Tensor

from hyperspherical.checks import check_features, check_floating, check_shape, values_are_checked

RIM = 1e-3  # points stay this fraction of the radius away from the rim
_LARGEST_TANH = 15.0


def _check_curvature(curvature: float) -> None:
    if not 0 < curvature < math.inf:
        raise ValueError(f"curvature must be positive and finite, got {curvature}")


def _check_vectors(name: str, x: Tensor) -> None:
    check_floating(name, x)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., n) with n >= 1, got {tuple(x.shape)}")


def _check_inside(name: str, x: Tensor, curvature: float) -> None:
    if values_are_checked(x) and x.numel():
        length, radius = torch.linalg.vector_norm(x.detach(), dim=-1).max().item(), 1 / math.sqrt(curvature)
        if not length < radius:
            raise ValueError(
                f"{name} must hold points inside the ball of radius {radius:.6g}, got a length of {length:.6g}"
            )


def _check_pairs(x: Tensor, y: Tensor, curvature: float) -> None:
    _check_vectors("x", x)
    _check_vectors("y", y)
    check_shape("y", y, tuple(x.shape))
    _check_curvature(curvature)
    _check_inside("x", x, curvature)
    _check_inside("y", y, curvature)


def squared_norm(x: Tensor) -> Tensor:
    """(..., n) -> (...) squared lengths.

    Raises:
        ValueError: x is not floating point or has no axis.
    """
    _check_vectors("x", x)
    squared: Tensor = x.square().sum(dim=-1)
    return squared


def project(x: Tensor, curvature: float) -> Tensor:
    """Pull points (..., n) beyond (1 - 1e-3) / sqrt(c) back to that radius.

    Raises:
        ValueError: curvature is not positive, or x is not floating point or has no axis.
    """
    _check_vectors("x", x)
    _check_curvature(curvature)
    limit = (1 - RIM) / math.sqrt(curvature)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.where(length > limit, x * (limit / length.clamp_min(limit)), x)


def to_ball_interior(x: Tensor, curvature: float) -> Tensor:
    """Scale points (..., n) so that |x|^2 <= 1/c - 1e-4, the bound the vMF study puts on its hyperplane offsets.

    After `project` it binds only in small balls (c above about 20); where it would leave nothing, it does nothing.

    Raises:
        ValueError: curvature is not positive, or x is not floating point or has no axis.
    """
    _check_vectors("x", x)
    _check_curvature(curvature)
    bound = 1 / curvature - 1e-4
    if bound <= 0:
        return x
    squared = squared_norm(x)[..., None]
    return torch.where(squared > bound, x * (bound / squared.clamp_min(bound)).sqrt(), x)


def exponential_map_at_zero(u: Tensor, curvature: float, riemannian_gradient: bool = False) -> Tensor:
    """exp_0(u) = tanh(sqrt(c) |u|) u / (sqrt(c) |u|), projected away from the rim.

    Args:
        u: (..., n) tangent vectors at the origin.
        curvature: c > 0.
        riemannian_gradient: multiply the gradient by (1 - c |x|^2)^2 / 4, the inverse metric at x.

    Returns:
        (..., n) points of the ball.

    Raises:
        ValueError: curvature is not positive, or u is not floating point or has no axis.
    """
    _check_vectors("u", u)
    _check_curvature(curvature)
    root = math.sqrt(curvature)
    length = torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp_min(1e-5)
    x = project(torch.tanh((root * length).clamp_max(_LARGEST_TANH)) * u / (root * length), curvature)
    if riemannian_gradient:
        factor = (1 - curvature * squared_norm(x.detach())[..., None]).square() / 4
        scaled = factor * x
        x = x.detach() + (scaled - scaled.detach())  # the value of x with the gradient of factor * x
    return x


def mobius_add(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    """Moebius addition x (+) y of points (..., n) of one shape.

    Raises:
        ValueError: curvature is not positive, or x and y differ in shape, are not floating point or leave the ball.
    """
    _check_pairs(x, y, curvature)
    c = curvature
    inner = (x * y).sum(dim=-1, keepdim=True)
    x_squared, y_squared = squared_norm(x)[..., None], squared_norm(y)[..., None]
    numerator = (1 + 2 * c * inner + c * y_squared) * x + (1 - c * x_squared) * y
    return numerator / (1 + 2 * c * inner + c * c * x_squared * y_squared)


def distance(x: Tensor, y: Tensor, curvature: float) -> Tensor:
    """Geodesic distance of points x and y (..., n) of one shape, in the unit in which the curvature is -c.

    d = (2 / sqrt(c)) asinh(sqrt(c) |x - y| / sqrt((1 - c |x|^2)(1 - c |y|^2))): the usual arcosh(1 + 2 s) without
    the loss of digits near s = 0.

    Raises:
        ValueError: curvature is not positive, or x and y differ in shape, are not floating point or leave the ball.
    """
    _check_pairs(x, y, curvature)
    apart = torch.linalg.vector_norm(x - y, dim=-1)
    return _from_chord(apart, squared_norm(x), squared_norm(y), curvature)


def distance_matrix(x_BD: Tensor, y_KD: Tensor, curvature: float) -> Tensor:
    """All distances of points x (B, D) and y (K, D): (B, K).

    Raises:
        ValueError: wrong shapes or types, curvature not positive, or points outside the ball.
    """
    check_features("x_BD", x_BD, ("B", "D"))
    check_features("y_KD", y_KD, ("K", x_BD.shape[1]))
    _check_curvature(curvature)
    _check_inside("x_BD", x_BD, curvature)
    _check_inside("y_KD", y_KD, curvature)
    apart_BK = torch.cdist(x_BD, y_KD)
    return _from_chord(apart_BK, squared_norm(x_BD)[:, None], squared_norm(y_KD), curvature)


def _from_chord(apart: Tensor, x_squared: Tensor, y_squared: Tensor, curvature: float) -> Tensor:
    root = math.sqrt(curvature)
    rims = ((1 - curvature * x_squared) * (1 - curvature * y_squared)).clamp_min(torch.finfo(apart.dtype).tiny)
    return 2 / root * torch.asinh(root * apart / rims.sqrt())
