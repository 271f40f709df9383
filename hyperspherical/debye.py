"""The engine under `bessel`: modified Bessel functions of the first kind without branches, cancellation or overflow.

Method, one for every order and argument: the uniform expansion of I_nu (DLMF 10.41.3, 10.41.5) at an order nu of at
least 16, then the stable downward recurrence of the ratios to the order v. All of it is written in t = kappa^2 and

    rho_o = I_(o+1)(kappa) / (kappa I_o(kappa)),     rho_o = 1 / (2 (o + 1) + t rho_(o+1)),

which is smooth in t and finite at kappa = 0. Derivatives are carried through the recurrence: the textbook formula
A' = 1 - A^2 - (n - 1) A / kappa cancels above kappa of about 10.

The functions take and return float64, except `NormalizerStep`, which keeps the dtype it is given outside.
Names: t = kappa^2, s = sqrt(1 + t / nu^2), p = 1 / s.
"""

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from hyperspherical.constant import constant

_FREE_ORDER = 32  # from here on the expansion alone is exact to float64
_TERMS = 8


def _debye_polynomials(count: int) -> list[list[Fraction]]:
    """U_0 ... U_count of DLMF 10.41.9 as exact coefficients, lowest power first."""
    polynomials = [[Fraction(1)]]
    for _ in range(count):
        old = polynomials[-1]
        new = [Fraction(0)] * (len(old) + 3)
        for power, c in enumerate(old):  # U_(k+1) = p^2 (1 - p^2) U_k' / 2 + 1/8 integral of (1 - 5 t^2) U_k
            new[power + 1] += c * power / 2 + c / (8 * (power + 1))
            new[power + 3] -= c * power / 2 + 5 * c / (8 * (power + 3))
        polynomials.append(new)
    return polynomials


_U = [[float(c) for c in polynomial] for polynomial in _debye_polynomials(_TERMS)]
# Q_k = -p U_(k-1) / 2 - p^2 U'_(k-1), for k = 1 ... 8: V_k - U_k (DLMF 10.41.11) without its factor 1 - p^2 = z^2 p^2.
_Q = [[0.0] + [-c * (0.5 + power) for power, c in enumerate(polynomial)] for polynomial in _U[:_TERMS]]
_SIZE = [max(abs(sum(c * (x / 64) ** i for i, c in enumerate(u))) for x in range(65)) for u in _U]


@constant
def _expansion(nu: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients in p of S - 1 = sum_(k>=1) U_k / nu^k and of Q = sum_(k>=1) Q_k / nu^k, highest power first."""
    # Terms below float64's resolution are left out: all eight are needed up to nu = 63, six at nu = 255.
    terms = max(k for k in range(1, _TERMS + 1) if k == 1 or _SIZE[k] / nu**k > 1e-17)
    s_minus_one, q = [0.0] * (3 * terms + 1), [0.0] * (3 * terms - 1)
    for k in range(terms, 0, -1):
        for power, c in enumerate(_U[k]):
            s_minus_one[power] += c / nu**k
        for power, c in enumerate(_Q[k - 1]):
            q[power] += c / nu**k
    return tuple(reversed(s_minus_one)), tuple(reversed(q))


def _horner(coefficients: tuple[float, ...], p: Tensor) -> Tensor:
    value = torch.full_like(p, coefficients[0])
    for c in coefficients[1:]:
        value = value * p + c
    return value


def _derivative(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    degree = len(coefficients) - 1
    return tuple(c * (degree - i) for i, c in enumerate(coefficients[:-1]))


def _shift(order: float) -> int:
    """How many orders above `order` the expansion starts.

    Every step down shrinks the error of the start, so low orders may start lower: 16 for order 0, 24 for order 16.
    """
    return max(0, math.ceil((_FREE_ORDER - order) / 2))


def rho_and_parts(t: Tensor, order: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """rho_order, and the three factors of log I: s, S - 1 and the product of rho from `order` to nu - 1."""
    steps = _shift(order)
    nu = order + steps
    s = torch.sqrt(1 + t / nu**2)
    p = s.reciprocal()
    s_coefficients, q_coefficients = _expansion(nu)
    s_minus_one = _horner(s_coefficients, p)
    rho = ((1 + s).reciprocal() + p * _horner(q_coefficients, p) / (1 + s_minus_one)) / nu
    product = torch.ones_like(rho)
    for step in range(steps):
        rho = (2 * (nu - step) + t * rho).reciprocal()
        product = product * rho
    return rho, s, s_minus_one, product


def ratio_slope(kappa: Tensor, order: float) -> Tensor:
    """d/dkappa of the ratio r = I_(order+1) / I_order, relatively exact from kappa = 0 to 1e8.

    r'_(o-1) = rho_(o-1)^2 (2 o - kappa^2 r'_o); differentiating kappa rho instead would cancel at large kappa.
    """
    t = kappa.square()
    steps = _shift(order)
    nu = order + steps
    s = torch.sqrt(1 + t / nu**2)
    p = s.reciprocal()
    s_coefficients, q_coefficients = _expansion(nu)
    big_s = 1 + _horner(s_coefficients, p)
    g = _horner(q_coefficients, p) / big_s
    g_slope = (_horner(_derivative(q_coefficients), p) - g * _horner(_derivative(s_coefficients), p)) / big_s
    rho = ((1 + s).reciprocal() + p * g) / nu
    slope = (p / (1 + s) + p**3 * g - (t / nu**2) * p**4 * g_slope) / nu
    for step in range(steps):
        rho = (2 * (nu - step) + t * rho).reciprocal()
        slope = rho.square() * (2 * (nu - step) - t * slope)
    return slope


def log_scaled(kappa: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """log(I_order(kappa) / kappa^order) and rho_order."""
    nu = order + _shift(order)
    rho, s, s_minus_one, product = rho_and_parts(kappa.square(), order)
    value = nu * (s - torch.log1p(s)) - 0.5 * torch.log(s) + torch.log1p(s_minus_one) - torch.log(product)
    return value - nu * math.log(nu) - 0.5 * math.log(2 * math.pi * nu), rho


class Ratio(torch.autograd.Function):
    """r_order(kappa) = I_(order+1) / I_order with the derivative of `ratio_slope`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(kappa: Tensor, order: float) -> Tensor:
        rho, _, _, _ = rho_and_parts(kappa.square(), order)
        return (kappa * rho).clamp(-1.0, 1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.order = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kappa,) = ctx.saved_tensors
        return grad * ratio_slope(kappa, ctx.order), None


class LogScaled(torch.autograd.Function):
    """log(I_order(kappa) / kappa^order); its derivative is the ratio, known from the forward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(kappa: Tensor, order: float) -> tuple[Tensor, Tensor]:
        value, rho = log_scaled(kappa, order)
        return value, (kappa * rho).clamp(-1.0, 1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])
        ctx.order = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        kappa, ratio = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this derivative may be asked for
            ratio = Ratio.apply(kappa, ctx.order)
        return grad * ratio, None


def normalizer_step(t: Tensor, increment: Tensor, order: float) -> tuple[Tensor, Tensor, Tensor]:
    """log C(sqrt(t)) - log C(sqrt(t + increment)) with every difference rationalised, and rho at both ends."""
    nu = order + _shift(order)
    moved = (t + increment).clamp_min(0.0)
    rho_a, s_a, rest_a, product_a = rho_and_parts(t, order)
    rho_b, s_b, rest_b, product_b = rho_and_parts(moved, order)
    rise = increment / (nu**2 * (s_a + s_b))  # s_b - s_a
    value = nu * (rise - torch.log1p(rise / (1 + s_a))) - 0.5 * torch.log1p(rise / s_a)
    value = value + torch.log1p((rest_b - rest_a) / (1 + rest_a)) + torch.log(product_a / product_b)
    return value, rho_a, rho_b


class NormalizerStep(torch.autograd.Function):
    """`normalizer_step` with its derivatives (rho_b - rho_a) / 2 and rho_b / 2, known from the forward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t: Tensor, increment: Tensor, order: float) -> tuple[Tensor, Tensor, Tensor]:
        value, rho_a, rho_b = normalizer_step(t.double(), increment.double(), order)
        return value.to(increment.dtype), rho_a.to(increment.dtype), rho_b.to(increment.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[0], inputs[1], output[1], output[2])
        ctx.order = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:
        t, increment, rho_a, rho_b = ctx.saved_tensors
        if torch.is_grad_enabled():
            rho_a = rho_and_parts(t.double(), ctx.order)[0].to(increment.dtype)
            rho_b = rho_and_parts((t.double() + increment).clamp_min(0.0), ctx.order)[0].to(increment.dtype)
        toward_b = grad * rho_b / 2
        return (toward_b - grad * rho_a / 2).sum_to_size(t.shape), toward_b.sum_to_size(increment.shape), None


class NormalizerDifference(torch.autograd.Function):
    """log C(a) - log C(b) for float64 concentrations; its derivatives are minus the ratio at a and the ratio at b.

    Through t and the increment they would be differences, whose own derivatives cancel where a and b lie far apart.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, order: float) -> tuple[Tensor, Tensor, Tensor]:
        value, rho_a, rho_b = normalizer_step(a.square(), (b - a) * (b + a), order)
        return value, (a * rho_a).clamp(-1.0, 1.0).expand_as(value), (b * rho_b).clamp(-1.0, 1.0).expand_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[0], inputs[1], output[1], output[2])
        ctx.order = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b, ratio_a, ratio_b = ctx.saved_tensors
        if torch.is_grad_enabled():
            ratio_a, ratio_b = Ratio.apply(a, ctx.order), Ratio.apply(b, ctx.order)
        return (-grad * ratio_a).sum_to_size(a.shape), (grad * ratio_b).sum_to_size(b.shape), None
