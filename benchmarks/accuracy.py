"""How exact the Bessel functions are beside 60-digit arithmetic, and the sampler beside closed forms and quadrature."""

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import torch
from scipy import stats
from torch import Tensor

from hyperspherical import VonMisesFisher, bessel
from hyperspherical.samplers import sample_radial

from . import high_precision as exact

DIMS = (2, 3, 4, 5, 8, 16, 64, 128, 512, 2048, 8192)
KAPPAS = (0.0, *(10 ** (i / 3) for i in range(-18, 25)))
LARGEST = 1e6  # of the concentrations in derivatives and differences
CHANGES = (1e-3, -1e-3, 1e-6, -1e-9, -1.0)  # the last, against kappa = 0, for derivatives alone
BOUNDS = {
    "A f64": 1e-12,
    "A f32": 2e-6,
    "log C f64": 1e-11,
    "log C f32": 2e-6,
    "diff f64": 1e-9,
    "diff f32": 1e-4,
    "1st f64": 1e-9,
    "1st f32": 1e-4,
    "2nd f64": 1e-7,
}

SETTINGS = (
    (2, 1.0),
    (3, 2.0),
    (5, 2.0),
    (8, 4.0),
    (16, 12.0),
    (64, 30.0),
    (128, 12.0),
    (128, 60.5),
    (512, 300.0),
    (512, 701.4),
    (2048, 5000.0),
)
DRAWS, PUBLISHED_DRAWS, PAIRS = 200_000, 20_000, 2_000
# Standard errors, except the p-value and the ratio; many coordinates share the loc-gradient's.
EXPECTED = {"mean": 4.0, "p": 1e-3, "gradient": 4.0, "loc gradient": 5.0, "variance ratio": 1.5}


def main() -> None:
    """Prints the worst error per dimension and function, then deviations of draws and of their gradients."""
    torch.set_num_threads(1)
    bessel_table()
    print()
    sampler_table()


def bessel_table() -> None:
    print(f"Worst errors over kappa = 0 and 1e-6 ... 1e8 (differences and derivatives: ... {LARGEST:g}), f64 and f32.")
    print("A and derivatives (of A, log C and the difference): relative; log C: over max(1, |log C|);")
    print("difference at |a - b| <= 1e-3 max(a, b): absolute.")
    print(f"{'n':>6}" + "".join(f"{name:>11}" for name in BOUNDS))
    missed = []
    for dim in DIMS:
        errors = bessel_errors(dim)
        print(f"{dim:6}" + "".join(f"{errors[name]:11.1e}" for name in BOUNDS))
        missed += [f"{name} at n = {dim}" for name, bound in BOUNDS.items() if not errors[name] <= bound]
    print(f"{'bound':>6}" + "".join(f"{bound:11.0e}" for bound in BOUNDS.values()))
    print(f"MISSED: {', '.join(missed)}" if missed else "every bound is kept")


def bessel_errors(dim: int) -> dict[str, float]:
    """The worst error of every column of the first table."""
    errors = {}
    for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        kappa = torch.tensor(KAPPAS, dtype=dtype, requires_grad=True)
        want = [exact.vmf(dim, k) for k in kappa.tolist()]
        a, log_c = bessel.mean_resultant_length(kappa, dim), bessel.log_vmf_normalizer(kappa, dim)
        errors[f"A {name}"] = worst(a, [w["A"] for w in want])
        errors[f"log C {name}"] = worst(log_c, [w["log C"] for w in want], smallest_scale=1.0)

        inside = sum(k <= LARGEST for k in KAPPAS)
        wants = [[w[key] for w in want[:inside]] for key in ("A", "dA", "d2A")]
        a_1st = slope(a, kappa)
        log_c_1st = slope(log_c, kappa)
        firsts = [worst(a_1st[:inside], wants[1]), worst(-log_c_1st[:inside], wants[0])]
        seconds = [
            worst(slope(a_1st, kappa)[:inside], wants[2]),
            worst(-slope(log_c_1st, kappa)[:inside], wants[1]),
        ]
        differences = []
        for change in CHANGES:
            low = kappa.detach()[:inside].clone().requires_grad_()
            high = (low.detach() * (1 + change)).requires_grad_()
            at_high = [exact.vmf(dim, k) for k in high.tolist()]
            value = bessel.log_vmf_normalizer_difference(low, high, dim)
            gaps = [w["log C"] - h["log C"] for w, h in zip(want, at_high, strict=False)]
            if change != -1.0:
                differences.append(worst(value, gaps, smallest_scale=math.inf))
            to_low, to_high = slope(value, low), slope(value, high)
            firsts += [worst(-to_low, wants[0]), worst(to_high, [w["A"] for w in at_high])]
            seconds += [worst(-slope(to_low, low), wants[1]), worst(slope(to_high, high), [w["dA"] for w in at_high])]
        errors[f"diff {name}"] = max(differences)
        errors[f"1st {name}"], errors[f"2nd {name}"] = max(firsts), max(seconds)
    return errors


def slope(value: Tensor, at: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), at, create_graph=True)[0]


def worst(got: Tensor, want: list[mp.mpf], smallest_scale: float = 0.0) -> float:
    """Largest error over max(|want|, smallest_scale): absolute where the scale is infinite or nothing but zero."""
    errors = []
    for g, w in zip(got.tolist(), want, strict=True):
        scale = max(abs(w), smallest_scale)
        errors.append(float(abs(mp.mpf(g) - w) / (scale if 0 < scale < math.inf else 1)))
    return float(np.max(errors))  # unlike max, it hands nan on


def sampler_table() -> None:
    print(
        "Draws, in standard errors but for p (Kolmogorov-Smirnov against the integrated density) and the ratio of the"
    )
    print("variance of the loc-gradient 0.001 from e_1 to that at distance 1. f(x) = x.Mx for the loc-gradient, whose")
    print(
        f"largest deviation over tangent coordinates stands here. {DRAWS:,} draws; {PUBLISHED_DRAWS:,} for gradients."
    )
    names = ("mean", "p", "dA/dkappa", "loc grad", "variance ratio", "published: mean", "dA/dkappa")
    print(f"{'n':>6}{'kappa':>8}" + "".join(f"{name:>{max(11, len(name) + 2)}}" for name in names))
    missed = []
    for seed, (dim, kappa) in enumerate(SETTINGS):
        want = exact.vmf(dim, kappa)
        a, da = float(want["A"]), float(want["dA"])
        generator = torch.Generator().manual_seed(seed)
        cos = sample_radial(torch.tensor([kappa], dtype=torch.float64), dim, DRAWS, generator)[0][:, 0]
        nodes, cdf = exact.marginal_cdf(dim, kappa)
        p_value = float(stats.kstest(cos.numpy(), lambda x, w=nodes, f=cdf: np.interp(x, w, f)).pvalue)
        found = {
            "mean": deviations(cos, a),
            "p": p_value,
            "gradient": deviations(kappa_gradients(dim, kappa, "exact", generator)[1], da),
            "loc gradient": loc_gradient_deviation(dim, kappa, a, generator),
            "variance ratio": loc_gradient_variance(dim, kappa, 0.001) / loc_gradient_variance(dim, kappa, 1.0),
        }
        published_cos, published_gradient = kappa_gradients(dim, kappa, "published", generator)
        row = [*found.values(), deviations(published_cos, a), deviations(published_gradient, da)]
        forms: list[Callable[[float], str]] = [signed, "{:.3f}".format, signed, "{:.1f}".format, "{:.3f}".format]
        texts = [form(x) for form, x in zip([*forms, signed, signed], row, strict=True)]
        widths = [max(11, len(name) + 2) for name in names]
        print(f"{dim:6}{kappa:8g}" + "".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True)))
        missed += [f"{name} at n = {dim}, kappa = {kappa:g}" for name in found if not as_expected(name, found[name])]
    print("expected of exact: " + ", ".join(f"{k} {'>' if k == 'p' else '<'} {v:g}" for k, v in EXPECTED.items()))
    print(f"MISSED: {', '.join(missed)}" if missed else "the exact sampler keeps all of them")


def signed(value: float) -> str:
    return f"{value:+.1f}"


def as_expected(name: str, value: float) -> bool:
    if name == "variance ratio":
        return 1 / EXPECTED[name] < value < EXPECTED[name]
    return value > EXPECTED[name] if name == "p" else abs(value) < EXPECTED[name]


def deviations(values: Tensor, want: float) -> float:
    """How many standard errors the mean of the values is off."""
    return (values.mean().item() - want) / (values.std().item() / math.sqrt(len(values)))


def kappa_gradients(dim: int, kappa: float, sampler: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws of mu.x and the derivative of each in its own concentration."""
    draws = PUBLISHED_DRAWS
    each = torch.full((draws,), kappa, dtype=torch.float64, requires_grad=True)
    cos = sample_radial(each, dim, 1, generator, sampler)[0][0]
    return cos.detach(), torch.autograd.grad(cos.sum(), each)[0]


def loc_gradient_deviation(dim: int, kappa: float, a: float, generator: torch.Generator) -> float:
    """Largest deviation over coordinates of the tangent gradient of E[x.Mx] = rho tr M + (1 - n rho) mu.M mu.

    rho = A / kappa; M is diagonal.
    """
    draws = min(20_000, 2**22 // dim)
    diagonal = torch.randn(dim, dtype=torch.float64, generator=generator)
    loc = torch.nn.functional.normalize(torch.randn(dim, dtype=torch.float64, generator=generator), dim=0)
    tangent = tangent_gradients(loc, kappa, draws, lambda x: (x * diagonal * x).sum(), generator)
    want = 2 * (1 - dim * a / kappa) * (diagonal * loc - (loc * diagonal * loc).sum() * loc)
    return float(((tangent.mean(dim=0) - want).abs() / (tangent.std(dim=0) / math.sqrt(draws))).max())


def loc_gradient_variance(dim: int, kappa: float, distance: float) -> float:
    """Variance of the loc-gradient of w.x, summed over the tangent space, at a mean direction so far from e_1."""
    generator = torch.Generator().manual_seed(dim)
    # A fresh random w per draw, so that it is the variance of the whole Jacobian.
    weights = torch.randn(PAIRS, dim, dtype=torch.float64, generator=generator)
    aside = torch.nn.functional.normalize(torch.randn(dim - 1, dtype=torch.float64, generator=generator), dim=0)
    loc = torch.cat([torch.tensor([math.cos(distance)], dtype=torch.float64), math.sin(distance) * aside])
    tangent = tangent_gradients(loc, kappa, PAIRS, lambda x: (x * weights).sum(), generator)
    return tangent.var(dim=0).sum().item()


def tangent_gradients(
    loc: Tensor, kappa: float, draws: int, f: Callable[[Tensor], Tensor], generator: torch.Generator
) -> Tensor:
    """The gradient in loc of f at each of so many draws, projected on the tangent space: (draws, n)."""
    locs = loc.expand(draws, -1).clone().requires_grad_()
    p = VonMisesFisher(locs, torch.full((draws,), kappa, dtype=torch.float64))
    gradient = torch.autograd.grad(f(p.rsample((), generator)), locs)[0]
    return gradient - (gradient @ loc)[:, None] * loc
