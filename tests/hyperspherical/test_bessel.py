import math
from collections.abc import Callable
from functools import cache

import mpmath as mp
import pytest
import torch
from torch import Tensor

from hyperspherical import bessel
from tests.reference import bessel as reference

DIMS = (2, 3, 4, 5, 8, 16, 34, 64, 66, 128, 512, 2048, 8192)
KAPPAS = (0.0, *(10.0**power for power in range(-6, 9)), 3.0, 60.5, 701.4, 5e3)
ONE_ARGUMENT = (
    bessel.mean_resultant_length,
    bessel.mean_resultant_slope,
    bessel.mean_resultant_quotient,
    bessel.log_vmf_normalizer,
    bessel.published_mean_resultant_length,
    bessel.published_mean_resultant_quotient,
    bessel.published_log_vmf_normalizer,
)
TWO_ARGUMENTS = (
    bessel.log_vmf_normalizer_difference,
    bessel.log_vmf_normalizer_step,
    bessel.published_log_vmf_normalizer_difference,
    bessel.published_log_vmf_normalizer_step,
)
vmf = cache(reference.vmf)


def f64(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


def worst(got: Tensor, want: list[mp.mpf], smallest_scale: float = 0.0) -> float:
    """Largest error over max(|want|, smallest_scale); absolute where both are 0."""
    assert got.isfinite().all()
    return max(
        float(abs(mp.mpf(g) - w) / (max(abs(w), smallest_scale) or 1)) for g, w in zip(got.tolist(), want, strict=True)
    )


def slope(value: Tensor, at: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), at, create_graph=True)[0]


@pytest.mark.parametrize("dim", DIMS)
def test_the_reference_agrees_with_mpmath(dim: int) -> None:
    for kappa in (k for k in KAPPAS if 0 < k != 1e5):  # at n = 8192 and 1e5 mpmath takes 10 seconds
        pair = reference.log_iv_and_ratio(dim / 2 - 1, kappa), reference.direct(dim / 2 - 1, kappa)
        for got, want in zip(*pair, strict=True):
            assert abs(got - want) < mp.mpf(10) ** -30 * (1 + abs(want))


@pytest.mark.parametrize("dim", DIMS)
def test_values_and_derivatives(dim: int) -> None:
    k = torch.tensor(KAPPAS, dtype=torch.float64, requires_grad=True)
    want = {key: [vmf(dim, kappa)[key] for kappa in KAPPAS] for key in ("A", "log C", "dA", "d2A")}
    a, log_c = bessel.mean_resultant_length(k, dim), bessel.log_vmf_normalizer(k, dim)
    first, minus_a = slope(a, k), slope(log_c, k)
    assert worst(a, want["A"]) < 1e-12
    assert worst(log_c, want["log C"], smallest_scale=1.0) < 1e-11
    assert worst(-minus_a, want["A"]) < 1e-12
    assert worst(first, want["dA"]) < 1e-9
    assert worst(bessel.mean_resultant_slope(k, dim), want["dA"]) < 1e-9
    assert worst(-slope(minus_a, k), want["dA"]) < 1e-9
    up_to_a_million = [i for i, kappa in enumerate(KAPPAS) if kappa <= 1e6]
    second = slope(first, k)[up_to_a_million]
    assert worst(second, [want["d2A"][i] for i in up_to_a_million]) < 1e-7


@pytest.mark.parametrize("dim", DIMS)
def test_float32(dim: int) -> None:
    k = torch.tensor(KAPPAS, requires_grad=True)
    want = {key: [vmf(dim, kappa)[key] for kappa in k.tolist()] for key in ("A", "log C", "dA")}
    a, log_c = bessel.mean_resultant_length(k, dim), bessel.log_vmf_normalizer(k, dim)
    assert a.dtype == log_c.dtype == torch.float32
    assert worst(a, want["A"]) < 2e-6
    assert worst(log_c, want["log C"], smallest_scale=1.0) < 2e-6
    assert worst(slope(a, k), want["dA"]) < 1e-4
    assert worst(-slope(log_c, k), want["A"]) < 1e-4


@pytest.mark.parametrize(
    ("dtype", "value_bound", "slope_bound"), [(torch.float64, 1e-9, 1e-9), (torch.float32, 1e-4, 1e-4)]
)
@pytest.mark.parametrize("dim", DIMS)
def test_difference_does_not_cancel(dim: int, dtype: torch.dtype, value_bound: float, slope_bound: float) -> None:
    for change in (1e-3, -1e-3, 1e-6, -1e-9):
        a = torch.tensor([0.0, 1e-6, 1e-3, 1.0, 60.5, 701.4, 1e4, 1e6], dtype=dtype, requires_grad=True)
        b = (a.detach() * (1 + change)).requires_grad_()
        at_a, at_b = ([vmf(dim, kappa) for kappa in x.tolist()] for x in (a, b))
        value = bessel.log_vmf_normalizer_difference(a, b, dim)
        for got, p, q in zip(value.tolist(), at_a, at_b, strict=True):
            assert abs(got - (p["log C"] - q["log C"])) < value_bound
        to_a, to_b = slope(value, a), slope(value, b)
        assert worst(-to_a, [p["A"] for p in at_a]) < slope_bound
        assert worst(to_b, [q["A"] for q in at_b]) < slope_bound
        if dtype == torch.float64:
            assert worst(-slope(to_a, a), [p["dA"] for p in at_a]) < 1e-7
            assert worst(slope(to_b, b), [q["dA"] for q in at_b]) < 1e-7


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32_whatever_autocast_says(half: torch.dtype) -> None:
    x, y = (torch.tensor(values, dtype=half, requires_grad=True) for values in ([0.5, 60.0], [3.0, 61.0]))
    for function in (*ONE_ARGUMENT, *TWO_ARGUMENTS):
        arguments = (x,) if function in ONE_ARGUMENT else (x, y)
        want = function(*(argument.float() for argument in arguments), 64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, single = function(*arguments, 64), function(*(argument.float() for argument in arguments), 64)
        assert got.dtype == want.dtype == torch.float32
        assert torch.equal(got, want) and torch.equal(single, want) and torch.equal(function(*arguments, 64), want)
        assert slope(got, x).dtype == half and slope(got, x).isfinite().all()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(bessel.log_iv(31.5, x), bessel.log_iv(31.5, x.float()))


@pytest.mark.parametrize("dim", [2, 3, 7, 40, 128])
def test_gradients_of_every_function(dim: int) -> None:
    torch.manual_seed(0)
    a = (torch.rand(4, dtype=torch.float64) * 5 + 0.1).requires_grad_()
    b = (torch.rand(4, dtype=torch.float64) * 5 + 0.1).requires_grad_()
    grow = (torch.rand(3, 4, dtype=torch.float64) * 5).requires_grad_()
    for function in ONE_ARGUMENT:
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, dim), a)
        assert torch.autograd.gradgradcheck(lambda x, f=function: f(x, dim), a)
    for step, difference in (
        (bessel.log_vmf_normalizer_step, bessel.log_vmf_normalizer_difference),
        (bessel.published_log_vmf_normalizer_step, bessel.published_log_vmf_normalizer_difference),
    ):
        assert torch.autograd.gradcheck(lambda x, y, f=difference: f(x, y, dim), (a, b))
        assert torch.autograd.gradgradcheck(lambda x, y, f=difference: f(x, y, dim), (a, b))
        assert torch.autograd.gradcheck(lambda x, y, f=step: f(x, y, dim), (a, grow))
        assert torch.autograd.gradgradcheck(lambda x, y, f=step: f(x, y, dim), (a, grow))
    assert torch.autograd.gradcheck(lambda x: bessel.log_iv(dim / 3, x), a)


@pytest.mark.parametrize("dim", DIMS)
def test_limits(dim: int) -> None:
    k = torch.tensor([0.0, 1e8, 1e12, 1e15], dtype=torch.float64, requires_grad=True)
    a, log_c = bessel.mean_resultant_length(k, dim), bessel.log_vmf_normalizer(k, dim)
    assert a[0] == 0 and (a[1:] > 0.99).all() and (a <= 1).all()
    area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    assert log_c[0].item() == pytest.approx(-area, rel=1e-12, abs=1e-11)
    assert slope(a, k)[0].item() == pytest.approx(1 / dim, rel=1e-12)
    difference = bessel.log_vmf_normalizer_difference(k, k.detach().flip(0), dim)
    for x in (k, torch.tensor(k.tolist(), requires_grad=True)):
        for function in ONE_ARGUMENT:
            value = function(x, dim)
            assert value.isfinite().all() and slope(value, x).isfinite().all(), function
    assert difference.isfinite().all() and slope(difference, k).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", DIMS)
def test_mean_resultant_length_rises_to_one(dim: int, dtype: torch.dtype) -> None:
    grid = torch.logspace(-6, 8, 20_000, dtype=dtype)
    curve = bessel.mean_resultant_length(grid, dim)
    assert (curve.diff() >= 0).all() and (curve >= 0).all() and (curve <= 1).all()
    low, high = bessel.mean_resultant_bounds(grid.double(), dim)
    room = 1 + (1e-12 if dtype == torch.float64 else 1e-6)
    assert (low <= curve * room).all() and (curve <= high * room).all()


def test_log_iv() -> None:
    x = torch.tensor([0.0, 0.5, 20.0], dtype=torch.float64)
    for order in (0, 0.5, 3, 41.5):
        values = bessel.log_iv(order, x)
        assert values[0].item() == (pytest.approx(0.0, abs=1e-13) if order == 0 else -math.inf)
        for got, argument in zip(values[1:], x[1:].tolist(), strict=True):
            assert got.item() == pytest.approx(float(reference.direct(order, argument)[0]), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("order", [0, 0.5, 1, 3, 31, 41.5, 255, 4095])
def test_log_iv_and_its_derivatives(order: float) -> None:
    arguments = [x for x in KAPPAS if 0 < x <= 1e6]
    x = torch.tensor(arguments, dtype=torch.float64, requires_grad=True)
    value = bessel.log_iv(order, x)
    first = slope(value, x)
    pairs = [reference.log_iv_and_ratio(order, argument) for argument in arguments]
    ratios = [ratio for _, ratio in pairs]
    assert worst(value, [log_i for log_i, _ in pairs], smallest_scale=1.0) < 1e-11
    assert worst(first, [r + order / mp.mpf(at) for r, at in zip(ratios, arguments, strict=True)]) < 1e-9
    seconds = [
        1 - r * r - (2 * order + 1) * r / mp.mpf(at) - order / mp.mpf(at) ** 2
        for r, at in zip(ratios, arguments, strict=True)
    ]
    assert worst(slope(first, x), seconds) < 1e-7


def test_known_values() -> None:
    def a(dim: int, kappa: float) -> float:
        return bessel.mean_resultant_length(torch.tensor(kappa, dtype=torch.float64), dim).item()

    assert a(128, 60.5) == pytest.approx(0.3985, abs=5e-5)
    assert a(512, 701.4) == pytest.approx(0.6998, abs=5e-5)
    assert a(3, 2.0) == pytest.approx(1 / math.tanh(2) - 0.5, rel=1e-14)
    assert a(5, 2.0) == pytest.approx(0.3611, abs=5e-5)
    assert bessel.mean_resultant_slope(f64(2.0), 5).item() == pytest.approx(0.14739, abs=5e-6)
    assert bessel.mean_resultant_slope(f64(60.5), 128).item() == pytest.approx(0.004794, abs=5e-7)


@pytest.mark.parametrize("dim", [3, 8, 128, 512])
def test_published_approximations_belong_together(dim: int) -> None:
    k = torch.linspace(0.0, 700.0, 50, dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(bessel.published_log_vmf_normalizer(k, dim).sum(), k)[0]
    torch.testing.assert_close(-slope, bessel.published_mean_resultant_length(k, dim), rtol=1e-12, atol=1e-12)
    low, high = bessel.mean_resultant_bounds(k, dim)
    torch.testing.assert_close(bessel.published_mean_resultant_length(k, dim), (low + high) / 2)
    worst = (bessel.published_mean_resultant_length(k, dim) - bessel.mean_resultant_length(k, dim)).abs().max()
    assert worst < {3: 5e-2, 8: 1.1e-2, 128: 8e-4, 512: 2e-4}[dim]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's compiler, of itself
def test_compiles_and_maps() -> None:
    def everything(k: Tensor, j: Tensor) -> Tensor:
        total = bessel.log_iv(2.5, k)
        for dim in (3, 64):
            total = total + sum(function(k, dim) for function in ONE_ARGUMENT)
            total = total + sum(function(k, j, dim) for function in TWO_ARGUMENTS)
        return total

    k = (torch.rand(5, dtype=torch.float64) * 9 + 0.1).requires_grad_()
    j = torch.rand(5, dtype=torch.float64)
    want = everything(k, j)
    first = torch.autograd.grad(want.sum(), k, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), k)[0]
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")(k, j)
    torch.testing.assert_close(compiled, want)
    torch.testing.assert_close(torch.autograd.grad(compiled.sum(), k)[0], first)
    torch.testing.assert_close(torch.vmap(everything)(k, j), want)
    torch.testing.assert_close(torch.vmap(everything, in_dims=(0, None))(k, j), everything(k[:, None], j))
    torch.testing.assert_close(torch.vmap(torch.func.grad(everything))(k.detach(), j), first)
    torch.testing.assert_close(torch.vmap(torch.func.grad(torch.func.grad(everything)))(k.detach(), j), second)


def test_nothing_waits_for_the_device() -> None:
    """Tensors of the meta device have no values: whoever looks at one on the host fails."""
    x, y = (torch.empty(5, dtype=torch.float64, device="meta", requires_grad=True) for _ in range(2))
    for function in (*ONE_ARGUMENT, *TWO_ARGUMENTS, bessel.mean_resultant_bounds):
        value = function(x, y, 64) if function in TWO_ARGUMENTS else function(x, 64)
        value = value[0] if isinstance(value, tuple) else value
        assert slope(slope(value, x), x).shape == (5,)
    assert slope(slope(bessel.log_iv(3, x), x), x).shape == (5,)


@pytest.mark.parametrize("function", [*ONE_ARGUMENT, *TWO_ARGUMENTS, bessel.mean_resultant_bounds])
def test_bad_input(function: Callable[..., Tensor]) -> None:
    count = 2 if function in TWO_ARGUMENTS else 1
    for dim, message in ((1, "dim must be at least 2, got 1"), (3.0, "dim must be an integer, got 3.0")):
        with pytest.raises(ValueError, match=message):
            function(*[torch.ones(2)] * count, dim)
    for place in range(count):
        arguments = [torch.ones(2, dtype=torch.long if i == place else torch.float32) for i in range(count)]
        with pytest.raises(ValueError, match=r"must be a floating-point tensor, got torch.int64"):
            function(*arguments, 3)


def test_bad_order() -> None:
    for order in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"order must be finite and at least 0, got {order}"):
            bessel.log_iv(order, torch.ones(2))
    with pytest.raises(ValueError, match=r"x must be a floating-point tensor, got torch.int64"):
        bessel.log_iv(1, torch.ones(2, dtype=torch.long))
