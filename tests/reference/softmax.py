"""Softmax objectives as plain loops over examples and classes, float64."""

import math

from torch import Tensor


def cross_entropy(logits: list[list[float]], labels: list[int]) -> float:
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total += math.log(sum(math.exp(x) for x in row)) - row[label]
    return total / len(labels)


def arcface_logits(x_BN: Tensor, w_YN: Tensor, labels: list[int], margin: float, beta: float) -> list[list[float]]:
    rows = []
    for x, label in zip(x_BN, labels, strict=True):
        row = []
        for j, w in enumerate(w_YN):
            theta = math.acos(float(x @ w / (x.norm() * w.norm())))
            row.append(beta * math.cos(theta + (margin if j == label else 0.0)))
        rows.append(row)
    return rows


def mobius_add(x: Tensor, y: Tensor, c: float) -> Tensor:
    inner, xx, yy = x @ y, x @ x, y @ y
    return ((1 + 2 * c * inner + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * inner + c * c * xx * yy)


def exp_zero(u: Tensor, c: float) -> Tensor:
    length = max(float(u.norm()), 1e-5)
    x = math.tanh(min(math.sqrt(c) * length, 15.0)) * u / (math.sqrt(c) * length)
    limit = (1 - 1e-3) / math.sqrt(c)
    return x if float(x.norm()) <= limit else x * (limit / float(x.norm()))


def hyperbolic_logits(u_BN: Tensor, a_YN: Tensor, p_YN: Tensor, c: float) -> list[list[float]]:
    rows = []
    for u in u_BN:
        x = exp_zero(u, c)
        row = []
        for a, p in zip(a_YN, p_YN, strict=True):
            ball = exp_zero(p, c)
            conformal = 2 / (1 - c * float(ball @ ball))
            normal = a * (1 - c * float(ball @ ball))
            moved = mobius_add(-ball, x, c)
            argument = 2 * math.sqrt(c) * float(moved @ normal)
            argument /= float(normal.norm()) * (1 - c * float(moved @ moved))
            row.append(conformal * float(normal.norm()) / math.sqrt(c) * math.asinh(argument))
        rows.append(row)
    return rows
