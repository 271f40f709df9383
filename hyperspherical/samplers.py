"""Draws of a von Mises-Fisher distribution: the angle phi between mean direction and sample, and tangents.

The exact sampler inverts the distribution function. In the angle the density is exp(kappa cos phi) sin(phi)^(n-2) on
[0, pi], a single bump. A standard normal number xi stands for the uniform number Phi(xi), and the angle becomes

    phi(kappa, xi) = acos(y) + deviation(y, xi) / sqrt(c),  c = sqrt((n - 1)^2 + 4 kappa^2),  y = 2 kappa / (n - 1 + c),

where `deviation` is close to xi and smooth for all concentrations, y from 0 to 1. It is tabulated once per dimension
(Chebyshev polynomials in y, cubic Hermite polynomials in xi); the distribution function of the draws is right to 2e-7,
on the circle to 3e-6. No rejection, hence no loop that may run long, no host synchronisation, and one random number for
every draw. Its gradient in kappa at fixed xi is the derivative of the same table: implicit reparameterisation,
d phi / d kappa = -(dF / d kappa) / p(phi).

Legend: B concentrations, S draws per concentration, K Chebyshev polynomials, M cells in xi.
"""

import math
from typing import Any

import torch
from torch import Tensor

from hyperspherical.checks import check_at_least, check_choice, check_concentration, check_features
from hyperspherical.constant import constant
from hyperspherical.sphere import normalize

SAMPLERS = ("exact", "published")
_REACH = 8.5  # standard deviations of xi; beyond lies a mass of 2e-17
_FINE_NODES = 4097
_NEWTON_STEPS = 6
_TINY = 1e-150  # stands for sin(0): its square is still a float64
_MOST_ROUNDS = 1000


def sample_radial(
    kappa_B: Tensor,
    dim: int,
    num_draws: int,
    generator: torch.Generator | None = None,
    sampler: str = "exact",
    validate_args: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw cos(phi) and sin(phi) of the angle between mean direction and sample, differentiable in kappa.

    Args:
        kappa_B: (B,) concentrations, 0 ... 1e8; 0 is the uniform distribution.
        dim: n, at least 2.
        num_draws: S, draws per concentration.
        generator: source of randomness, on the device of kappa_B.
        sampler: "exact", or "published" for the behaviour of the vMF paper's code (biased, see `_published`).
        validate_args: check kappa's values; default: on the CPU only. Unchecked, nan gives nan.

    Returns:
        cos_SB, sin_SB: (S, B) each, dtype of kappa_B (float32 for half precision).

    Raises:
        ValueError: wrong shape or type, dim < 2, a negative or non-finite kappa, an unknown sampler.
        RuntimeError: the published sampler rejects for 1000 rounds.
    """
    check_features("kappa_B", kappa_B, (kappa_B.shape[0] if kappa_B.dim() == 1 else "B",))
    check_at_least("dim", dim, 2)
    check_at_least("num_draws", num_draws, 0)
    check_choice("sampler", sampler, SAMPLERS)
    check_concentration("kappa_B", kappa_B, validate_args)
    kappa_B = kappa_B.to(torch.float64 if kappa_B.dtype == torch.float64 else torch.float32)
    if sampler == "published":
        return _published(kappa_B, dim, num_draws, generator)
    xi_SB = torch.randn((num_draws, kappa_B.shape[0]), dtype=kappa_B.dtype, device=kappa_B.device, generator=generator)
    phi_SB: Tensor = _Angle.apply(kappa_B, xi_SB, dim)
    return torch.cos(phi_SB), torch.sin(phi_SB)


def angle_at(kappa_B: Tensor, xi_SB: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """phi(kappa, xi) in radians and its derivative in kappa, (S, B) each; see the module's text."""
    if dim == 3:
        return _angle_at_in_three_dimensions(kappa_B, xi_SB)
    cells_KM8, degrees_K, offsets_8 = _table(dim, kappa_B.dtype, kappa_B.device)
    size, cells = float(dim - 1), _size(dim)[1]
    c_B = torch.sqrt(kappa_B.square() * 4 + size * size)
    inverse_B = 1 / (c_B + size)
    y_B, squared_sine_B = kappa_B * inverse_B * 2, inverse_B * (2 * size)  # y = cos, and 1 - y^2
    sine_B = squared_sine_B.sqrt()
    theta_B = torch.acos((y_B * 2 - 1).clamp(-1.0, 1.0))
    cells_BM8 = torch.cos(theta_B[:, None] * degrees_K) @ cells_KM8

    place_SB = (xi_SB * (cells / (2 * _REACH)) + cells / 2).clamp_(0.0, cells - 1e-3)
    cell_SB = place_SB.long()
    t = place_SB - cell_SB
    squared = t * t
    powers_SB14 = torch.stack([torch.ones_like(t), t, squared, squared * t], dim=-1)[..., None, :]
    first_B = torch.arange(kappa_B.shape[0], device=kappa_B.device) * (8 * cells)
    cells_SB24 = cells_BM8.take((cell_SB * 8 + first_B)[..., None] + offsets_8).unflatten(-1, (2, 4))
    deviation_SB, by_y_SB = (cells_SB24 * powers_SB14).sum(dim=-1).unbind(dim=-1)

    width_B, per_c_B = c_B.rsqrt(), 1 / c_B
    phi_SB = torch.addcmul(torch.atan2(sine_B, y_B), deviation_SB, width_B)
    # d acos(y) / dkappa = -sine / c, dy / dkappa = sine^2 / c, dc / dkappa = 4 kappa / c
    slope_SB = torch.addcmul(-sine_B * per_c_B, by_y_SB, squared_sine_B * per_c_B * width_B)
    return phi_SB, slope_SB.addcmul_(deviation_SB, kappa_B * per_c_B.square() * width_B, value=-2)


def _angle_at_in_three_dimensions(kappa_B: Tensor, xi_SB: Tensor) -> tuple[Tensor, Tensor]:
    """`angle_at` for n = 3 in closed form: 1 - cos(phi) = -log(1 - (1 - exp(-2 kappa)) Phi(xi)) / kappa."""
    kappa_B, xi_SB, dtype = kappa_B.double().clamp_min(1e-8), xi_SB.double(), xi_SB.dtype
    inverse_B, decay_B = 1 / kappa_B, torch.expm1(kappa_B * -2)
    u_SB = torch.special.ndtr(xi_SB)
    y_SB = decay_B * u_SB
    drop_SB = torch.log1p(y_SB) * -inverse_B
    sine_SB = torch.sqrt(drop_SB * (2 - drop_SB)).clamp_min_(1e-30)
    drop_slope_SB = (u_SB * (2 * decay_B + 2) / (y_SB + 1) - drop_SB) * inverse_B
    return torch.atan2(sine_SB, 1 - drop_SB).to(dtype), (drop_slope_SB / sine_SB).to(dtype)


class _Angle(torch.autograd.Function):
    """phi of `angle_at`, differentiable in kappa."""

    @staticmethod
    def forward(ctx: Any, kappa_B: Tensor, xi_SB: Tensor, dim: int) -> Tensor:
        phi_SB, slope_SB = angle_at(kappa_B, xi_SB, dim)
        ctx.save_for_backward(slope_SB)
        return phi_SB

    @staticmethod
    def backward(ctx: Any, grad_SB: Tensor) -> tuple[Tensor, None, None]:
        (slope_SB,) = ctx.saved_tensors
        return (grad_SB * slope_SB).sum(dim=0), None, None


# ---------------------------------------------------------------------------------------------------------------------
# The table, made once per dimension.


def _size(dim: int) -> tuple[int, int]:
    """Chebyshev polynomials and cells needed for 2e-7 in the distribution function (3e-6 on the circle).

    In few dimensions the density does not vanish at phi = pi as fast, and the quantiles turn a sharp corner there.
    """
    if dim < 5:
        return (512, 96) if dim == 2 else (64, 96)
    return (24, 96) if dim < 16 else (24, 48) if dim < 64 else (16, 48)


@constant
def _table(dim: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Cells as of `_tabulate` (K, 8 M), the degrees 0 ... K - 1 and the offsets 0 ... 7."""
    with torch.no_grad(), torch.device("cpu"):
        cells_KM8 = _tabulate(dim)
        degrees_K = torch.arange(cells_KM8.shape[0], dtype=dtype)
        return cells_KM8.to(device, dtype), degrees_K.to(device), torch.arange(8).to(device)


def _tabulate(dim: int) -> Tensor:
    """(K, 8 M) Chebyshev coefficients in y: a cubic in every cell for the deviation, another for its slope in y."""
    count, cells = _size(dim)
    theta_K = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count)
    y_K1 = (1 + torch.cos(theta_K[:, None])) / 2
    kappa_K1 = (dim - 1) * y_K1 / ((1 - y_K1) * (1 + y_K1))
    xi = torch.linspace(-_REACH, _REACH, cells + 1, dtype=torch.float64)
    phi, density = _quantiles(kappa_K1, dim, xi)
    scale_K1 = torch.sqrt(torch.sqrt(4 * kappa_K1.square() + (dim - 1) ** 2))
    normal = torch.exp(-xi.square() / 2) / math.sqrt(2 * math.pi)
    value = (phi - torch.acos(y_K1)) * scale_K1
    slope = torch.where(density > 1e-290, normal / density.clamp_min(1e-290), 0.0) * scale_K1 * (2 * _REACH / cells)
    rise, left, right = value.diff(dim=1), slope[:, :-1], slope[:, 1:]
    cubic_KM4 = torch.stack([value[:, :-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise], dim=-1)

    transform = torch.cos(torch.arange(count, dtype=torch.float64)[:, None] * theta_K) * (2 / count)
    transform[0] /= 2
    series = transform @ cubic_KM4.flatten(1)
    derivative = torch.zeros_like(series)
    for k in range(count - 1, 0, -1):  # of a Chebyshev series in 2 y - 1: d_(k-1) = d_(k+1) + 2 k s_k
        derivative[k - 1] = (derivative[k + 1] if k + 1 < count else 0) + 4 * k * series[k]
    derivative[0] /= 2
    cells_KM8: Tensor = torch.stack([series, derivative], dim=1).unflatten(2, (cells, 4)).transpose(1, 2).flatten(1)
    return cells_KM8


def _quantiles(kappa_K1: Tensor, dim: int, xi_M: Tensor) -> tuple[Tensor, Tensor]:
    """Angles at which the distribution function is Phi(xi), and the density there, (K, M) each."""
    a, k = float(dim - 2), kappa_K1
    # At the mode cos = 2 k / (a + c) and sin^2 = 2 a / (a + c); minus the curvature of the log-density there is c.
    c = torch.sqrt(a * a + 4 * k * k)
    mode = torch.atan2(torch.sqrt(2 * a * (a + c)), 2 * k)
    # Nine and a half standard deviations; on the circle the bump is a Gaussian of sqrt(2 / c), and n = 3 like it.
    reach = 9.5 * math.sqrt(2 if dim < 4 else 1) / torch.sqrt(c.clamp_min(1e-30))
    low, high = (mode - reach).clamp_min(0.0), (mode + reach).clamp_max(math.pi)
    h = (high - low) / (_FINE_NODES - 1)
    phi = low + h * torch.arange(_FINE_NODES, dtype=torch.float64)
    density, slope = _density(phi, k, dim, mode)
    from_left, from_right = _cumulative(density, slope, h), _cumulative(density.flip(1), -slope.flip(1), h)
    mass = from_left[:, -1:]
    # Each tail is inverted from its own end, where its small probabilities keep their digits.
    tail_KM = torch.special.ndtr(-xi_M.abs()).expand(len(k), -1).contiguous()
    left = _invert(tail_KM, from_left / mass, density * (h / mass))
    right = _invert(tail_KM, from_right / mass, density.flip(1) * (h / mass))
    phi_KM = low + h * torch.where(xi_M <= 0, left, _FINE_NODES - 1 - right)
    return phi_KM, _density(phi_KM, k, dim, mode)[0] / mass


def _density(phi: Tensor, kappa: Tensor, dim: int, mode: Tensor) -> tuple[Tensor, Tensor]:
    """exp(kappa cos phi) sin(phi)^(n-2) over its value at the mode, and its slope."""
    # cos(phi) - cos(mode) as a product: at large kappa the difference of the cosines has no digits left.
    log_p = -2 * kappa * torch.sin((phi + mode) / 2) * torch.sin((phi - mode) / 2)
    sine = torch.sin(phi).abs().clamp_min(_TINY)
    log_slope = -kappa * sine
    if dim > 2:
        log_p = log_p + (dim - 2) * torch.log(sine / torch.sin(mode))
        log_slope = log_slope + (dim - 2) * torch.cos(phi) / sine
    p = torch.exp(log_p)
    return p, p * log_slope


def _cumulative(f: Tensor, slope: Tensor, h: Tensor) -> Tensor:
    """Integral of f from the first node to each node: trapezoid rule with the end correction of a cubic Hermite."""
    cells = (h / 2) * (f[:, 1:] + f[:, :-1]) + (h.square() / 12) * (slope[:, :-1] - slope[:, 1:])
    return torch.nn.functional.pad(cells.cumsum(dim=1), (1, 0))


def _invert(u_KM: Tensor, F: Tensor, slope: Tensor) -> Tensor:
    """Where, in steps from the first node, the cubic Hermite of F takes the values u."""
    cell = (torch.searchsorted(F, u_KM, right=True) - 1).clamp(0, F.shape[1] - 2)
    F0, F1, d0, d1 = F.gather(1, cell), F.gather(1, cell + 1), slope.gather(1, cell), slope.gather(1, cell + 1)
    rest = (u_KM - F0).clamp_min(0.0)
    # Start from a density that is linear in the cell; exact already where the cell starts at a zero of the density.
    root = torch.sqrt((d0.square() + 2 * (d1 - d0) * rest).clamp_min(0.0))
    t = (2 * rest / (d0 + root).clamp_min(1e-300)).clamp(0.0, 1.0)
    c2, c3 = 3 * (F1 - F0) - 2 * d0 - d1, 2 * (F0 - F1) + d0 + d1
    for _ in range(_NEWTON_STEPS):
        miss = t * (d0 + t * (c2 + t * c3)) - rest
        t = (t - miss / (d0 + t * (2 * c2 + 3 * c3 * t)).clamp_min(1e-300)).clamp(0.0, 1.0)
    return cell + t


# ---------------------------------------------------------------------------------------------------------------------
# Tangents at the mean direction.


def random_tangents(loc: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Uniform unit vectors orthogonal to the unit vectors loc (..., n), one each, differentiable in loc.

    A Gaussian vector projected and normalised; when loc turns, the tangent is carried along by the same rotation
    (parallel transport). The Householder reflection that carries e_1 to loc gives the same distribution, but the
    variance of its gradient explodes as loc approaches e_1.
    """
    tangent = draw_tangents(loc.detach(), generator)
    along = (tangent * loc).sum(dim=-1, keepdim=True)  # zero; its gradient is the rotation
    return tangent - along * loc


def draw_tangents(loc: Tensor, generator: torch.Generator | None = None, hidden: int = 0) -> Tensor:
    """The tangents of `random_tangents` without gradient.

    Args:
        loc: (..., n) unit vectors, or (..., k) their coordinates in a subspace that contains them.
        generator: source of randomness.
        hidden: number of further coordinates n - k, orthogonal to the subspace, that are drawn but not returned.

    Returns:
        (..., k) coordinates of uniform unit tangents; shorter than 1 where some are hidden.
    """
    tangent = torch.randn(loc.shape, dtype=loc.dtype, device=loc.device, generator=generator)
    if loc.shape[-1] == 2 and hidden == 0:
        across = torch.stack([-loc[..., 1], loc[..., 0]], dim=-1)
        return torch.where(tangent[..., :1] < 0, -across, across)
    tangent.addcmul_(torch.linalg.vecdot(tangent, loc)[..., None], loc, value=-1)
    squared = torch.linalg.vector_norm(tangent, dim=-1, keepdim=True).square_()
    if hidden:
        half = torch.full_like(squared, hidden / 2)
        squared.add_(torch._standard_gamma(half, generator=generator), alpha=2)
    tangent.mul_(squared.clamp_min_(1e-30).rsqrt_())
    if loc.shape[-1] < 8 and not hidden:
        # A Gaussian vector may lie so close to loc that one projection leaves mostly rounding.
        return normalize(tangent.addcmul_(torch.linalg.vecdot(tangent, loc)[..., None], loc, value=-1))
    return tangent


def householder_tangents(loc: Tensor, generator: torch.Generator | None) -> Tensor:
    """Published behaviour: (0, v) with v uniform, reflected by the hyperplane that carries e_1 to loc."""
    n = loc.shape[-1]
    gaussian = torch.randn((*loc.shape[:-1], n - 1), dtype=loc.dtype, device=loc.device, generator=generator)
    x = torch.nn.functional.pad(torch.nn.functional.normalize(gaussian, dim=-1), (1, 0))
    axis = torch.zeros_like(loc)
    axis[..., 0] = 1.0
    difference = axis - loc
    u = difference / torch.linalg.vector_norm(difference, dim=-1, keepdim=True).clamp_min(1e-7)
    reflected: Tensor = x - 2 * (x * u).sum(dim=-1, keepdim=True) * u
    return reflected


def _published(kappa_B: Tensor, dim: int, num_draws: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The rejection sampler of the vMF paper's code, for replication only.

    It follows Wood (1994), but between kappa = 10 and 11 it blends the exact b into (n - 1) / (4 kappa), which holds
    only for kappa far above n: at n = 128 and kappa = 60.5 it gives E[mu.x] = 0.310 instead of 0.399. Its gradient
    differentiates through b with the proposal held fixed, without the correction for the rejection.
    """
    m, shape = dim, (num_draws, kappa_B.shape[0])
    if m == 3:
        u = torch.rand(shape, dtype=kappa_B.dtype, device=kappa_B.device, generator=generator).clamp_min(1e-20)
        cos = 1 + torch.logaddexp(torch.log(u), torch.log1p(-u) - 2 * kappa_B) / kappa_B.clamp_min(1e-20)
        return cos, torch.sqrt((1 - cos.square()).clamp_min(1e-7))
    root = torch.sqrt(4 * kappa_B.square() + (m - 1) ** 2)
    blend = (kappa_B - 10).clamp(0.0, 1.0)
    b = (1 - blend) * (root - 2 * kappa_B) / (m - 1) + blend * (m - 1) / (4 * kappa_B.clamp_min(1.0))
    a = (m - 1 + 2 * kappa_B + root) / 4
    d = 4 * a * b / (1 + b) - (m - 1) * math.log(m - 1)
    beta = torch.full(shape, (m - 1) / 2, dtype=torch.float64, device=kappa_B.device)
    epsilon = torch.zeros(shape, dtype=kappa_B.dtype, device=kappa_B.device)
    waiting = torch.ones(shape, dtype=torch.bool, device=kappa_B.device)
    with torch.no_grad():
        for _ in range(_MOST_ROUNDS):
            one = torch._standard_gamma(beta, generator=generator)
            other = torch._standard_gamma(beta, generator=generator)
            proposal = (one / (one + other)).to(kappa_B.dtype)
            u = torch.rand(shape, dtype=kappa_B.dtype, device=kappa_B.device, generator=generator)
            t = 2 * a * b / (1 - (1 - b) * proposal)
            accepted = waiting & ((m - 1) * torch.log(t) - t + d >= torch.log(u))
            epsilon = torch.where(accepted, proposal, epsilon)
            waiting = waiting & ~accepted
            if not bool(waiting.any()):
                break
        else:
            raise RuntimeError(f"the published sampler rejected for {_MOST_ROUNDS} rounds at dim = {dim}")
    cos = (1 - (1 + b) * epsilon) / (1 - (1 - b) * epsilon)
    return cos, torch.sqrt((1 - cos.square()).clamp_min(1e-7))
