"""What the accuracy of the Bessel functions and of the sampler is judged by: 60 digits, and quadrature.

Bessel ratios and the vMF normaliser come from the uniform expansion at a shift of 400 orders. mpmath's own Bessel
function does not converge for large orders with large arguments; `direct` uses it where it does.
"""

import math
from functools import cache

import mpmath as mp
import numpy as np

mp.mp.dps = 60
SHIFT, TERMS = 400, 14


@cache
def _polynomials() -> list[list[mp.mpf]]:
    us = [[mp.mpf(1)]]
    for _ in range(TERMS):
        new = [mp.mpf(0)] * (len(us[-1]) + 3)
        for power, c in enumerate(us[-1]):
            new[power + 1] += c * power / 2 + c / (8 * (power + 1))
            new[power + 3] -= c * power / 2 + 5 * c / (8 * (power + 3))
        us.append(new)
    return us


def _value(polynomial: list[mp.mpf], p: mp.mpf) -> mp.mpf:
    return mp.polyval(polynomial[::-1], p)


def log_iv_and_ratio(order: float, x: float) -> tuple[mp.mpf, mp.mpf]:
    """log I_order(x) and I_(order+1)(x) / I_order(x) at x > 0."""
    order_mp, x_mp = mp.mpf(order), mp.mpf(x)
    nu = order_mp + SHIFT
    z = x_mp / nu
    s = mp.sqrt(1 + z * z)
    p = 1 / s
    us = _polynomials()
    big_s = mp.fsum(_value(u, p) / nu**k for k, u in enumerate(us))
    # DLMF 10.41.11 for V_k, then I'/I = (s / z) T / S and I_(nu+1)/I_nu = I'/I - nu / x
    vs = [mp.mpf(1)]
    for k in range(1, TERMS + 1):
        u = us[k - 1]
        slope = mp.fsum(power * c * p ** (power - 1) for power, c in enumerate(u) if power)
        vs.append(_value(us[k], p) - p * (1 - p * p) * _value(u, p) / 2 - p * p * (1 - p * p) * slope)
    big_t = mp.fsum(v / nu**k for k, v in enumerate(vs))
    ratio = (s * big_t / big_s - 1) / z
    log_i = nu * (s + mp.log(z / (1 + s))) - mp.log(2 * mp.pi * nu) / 2 - mp.log(s) / 2 + mp.log(big_s)
    product = mp.mpf(1)
    for step in range(SHIFT):
        ratio = 1 / (2 * (nu - step) / x_mp + ratio)
        product *= ratio
    return log_i - mp.log(product), ratio


def vmf(dim: int, kappa: float) -> dict[str, mp.mpf]:
    """A_n, log C_n and the first two derivatives of A_n at kappa >= 0."""
    order, k, n = mp.mpf(dim) / 2 - 1, mp.mpf(kappa), mp.mpf(dim)
    if kappa == 0:
        log_c = mp.loggamma(n / 2) - mp.log(2) - n / 2 * mp.log(mp.pi)
        return {"A": mp.mpf(0), "log C": log_c, "dA": 1 / n, "d2A": mp.mpf(0)}
    log_i, a = log_iv_and_ratio(order, k)
    log_c = order * mp.log(k) - n / 2 * mp.log(2 * mp.pi) - log_i
    first = 1 - a * a - (n - 1) * a / k
    second = -2 * a * first - (n - 1) * (first / k - a / k**2)
    return {"A": a, "log C": log_c, "dA": first, "d2A": second}


def direct(order: float, x: float) -> tuple[mp.mpf, mp.mpf]:
    """The same as `log_iv_and_ratio` from mpmath's Bessel function."""
    low, high = (mp.besseli(mp.mpf(order) + up, x, maxterms=10**6) for up in (0, 1))
    return mp.log(low), high / low


def marginal_cdf(dim: int, kappa: float, points: int = 400_001) -> tuple[np.ndarray, np.ndarray]:
    """Nodes w = mu.x in [-1, 1] and the distribution function there, integrated in the angle."""
    phi = np.linspace(0.0, math.pi, points)
    with np.errstate(divide="ignore"):
        log_p = kappa * np.cos(phi) + (dim - 2) * np.log(np.sin(phi)) if dim > 2 else kappa * np.cos(phi)
    p = np.exp(log_p - log_p.max())
    cumulative = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    return np.cos(phi)[::-1], (1 - cumulative / cumulative[-1])[::-1]
