import math

import mpmath as mp
import pytest
import torch
from torch import Tensor

from hyperspherical import bessel
from tests.reference import bessel as reference

DIMS = (2, 3, 4, 5, 8, 16, 34, 64, 66, 128, 512, 2048, 8192)
KAPPAS = (1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 60.5, 701.4, 5e3, 1e5, 1e6, 1e8)


def f64(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


def relative(got: Tensor, want: mp.mpf) -> float:
    return float(abs((mp.mpf(got.item()) - want) / want))


@pytest.mark.parametrize(("order", "x"), [(0, 0.3), (0.5, 2.0), (3, 40.0), (63, 60.5), (255, 701.4), (1023, 3e3)])
def test_the_reference_agrees_with_mpmath(order: float, x: float) -> None:
    for got, want in zip(reference.log_iv_and_ratio(order, x), reference.direct(order, x), strict=True):
        assert abs(got - want) < mp.mpf(10) ** -30 * (1 + abs(want))


@pytest.mark.parametrize("dim", DIMS)
def test_values_and_derivatives(dim: int) -> None:
    for kappa in KAPPAS:
        want = reference.vmf(dim, kappa)
        k = f64(kappa)
        a = bessel.mean_resultant_length(k, dim)
        first = torch.autograd.grad(a, k, create_graph=True)[0]
        second = torch.autograd.grad(first, k)[0]
        log_c = bessel.log_vmf_normalizer(k, dim)
        minus_a = torch.autograd.grad(log_c, k, create_graph=True)[0]
        minus_slope = torch.autograd.grad(minus_a, k)[0]
        scale = max(1.0, abs(float(want["log C"])))
        assert relative(a, want["A"]) < 1e-12
        assert abs(mp.mpf(log_c.item()) - want["log C"]) < 1e-11 * scale
        assert relative(-minus_a, want["A"]) < 1e-12
        assert relative(first, want["dA"]) < 1e-9
        assert relative(-minus_slope, want["dA"]) < 1e-9
        if kappa <= 1e6:
            assert relative(second, want["d2A"]) < 1e-7


@pytest.mark.parametrize("dim", DIMS)
def test_float32_and_half_precision(dim: int) -> None:
    for kappa in KAPPAS:
        k = torch.tensor(kappa, requires_grad=True)
        want = reference.vmf(dim, k.item())
        a, log_c = bessel.mean_resultant_length(k, dim), bessel.log_vmf_normalizer(k, dim)
        assert a.dtype == log_c.dtype == torch.float32
        assert relative(a, want["A"]) < 2e-6
        assert abs(log_c.item() - float(want["log C"])) < 2e-6 * max(1.0, abs(float(want["log C"])))
        assert relative(torch.autograd.grad(a, k)[0], want["dA"]) < 1e-4
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.tensor([0.5, 60.0], dtype=torch.bfloat16)
        assert bessel.mean_resultant_length(half, dim).dtype == torch.float32
        assert torch.equal(bessel.log_vmf_normalizer(half, dim), bessel.log_vmf_normalizer(half.float(), dim))


@pytest.mark.parametrize("dim", DIMS)
def test_difference_does_not_cancel(dim: int) -> None:
    for kappa in (1e-3, 1.0, 60.5, 1e4, 1e6):
        for change in (1e-3, 1e-6, -1e-9):
            low, high = kappa, kappa * (1 + change)
            want = reference.vmf(dim, low)["log C"] - reference.vmf(dim, high)["log C"]
            assert abs(bessel.log_vmf_normalizer_difference(f64(low), f64(high), dim).item() - want) < 1e-9
            a, b = torch.tensor(low), torch.tensor(high)
            want32 = reference.vmf(dim, a.item())["log C"] - reference.vmf(dim, b.item())["log C"]
            assert abs(bessel.log_vmf_normalizer_difference(a, b, dim).item() - want32) < 1e-4


@pytest.mark.parametrize("dim", [2, 3, 7, 40, 128])
def test_gradients_of_every_function(dim: int) -> None:
    torch.manual_seed(0)
    a = (torch.rand(4, dtype=torch.float64) * 5 + 0.1).requires_grad_()
    b = (torch.rand(4, dtype=torch.float64) * 5 + 0.1).requires_grad_()
    grow = (torch.rand(3, 4, dtype=torch.float64) * 5).requires_grad_()
    for function in (
        bessel.mean_resultant_length,
        bessel.mean_resultant_slope,
        bessel.mean_resultant_quotient,
        bessel.log_vmf_normalizer,
        bessel.published_mean_resultant_length,
        bessel.published_mean_resultant_quotient,
        bessel.published_log_vmf_normalizer,
    ):
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
    k = torch.tensor([0.0, 1e8], dtype=torch.float64, requires_grad=True)
    a, log_c = bessel.mean_resultant_length(k, dim), bessel.log_vmf_normalizer(k, dim)
    assert a[0] == 0 and 0.99 < a[1] <= 1
    area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    assert log_c[0].item() == pytest.approx(-area, rel=1e-12, abs=1e-11)
    slope = torch.autograd.grad(a.sum(), k)[0]
    assert slope[0].item() == pytest.approx(1 / dim, rel=1e-12)
    assert slope.isfinite().all() and torch.autograd.grad(log_c.sum(), k)[0].isfinite().all()
    grid = torch.logspace(-6, 8, 2000, dtype=torch.float64)
    curve = bessel.mean_resultant_length(grid, dim)
    assert (curve.diff() >= 0).all() and (curve <= 1).all()
    low, high = bessel.mean_resultant_bounds(grid, dim)
    assert (low <= curve * (1 + 1e-12)).all() and (curve <= high * (1 + 1e-12)).all()


def test_log_iv() -> None:
    x = torch.tensor([0.0, 0.5, 20.0], dtype=torch.float64)
    for order in (0, 0.5, 3, 41.5):
        values = bessel.log_iv(order, x)
        assert values[0].item() == (pytest.approx(0.0, abs=1e-13) if order == 0 else -math.inf)
        for got, argument in zip(values[1:], x[1:].tolist(), strict=True):
            assert got.item() == pytest.approx(float(reference.direct(order, argument)[0]), rel=1e-13, abs=1e-13)
    with pytest.raises(ValueError, match="order"):
        bessel.log_iv(-1, x)


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
        difference = bessel.log_vmf_normalizer_difference(k, j, 64)
        return bessel.log_vmf_normalizer(k, 3) + bessel.mean_resultant_length(k, 128) + difference

    k = (torch.rand(5, dtype=torch.float64) * 9).requires_grad_()
    j = torch.rand(5, dtype=torch.float64)
    want = everything(k, j)
    slope = torch.autograd.grad(want.sum(), k)[0]
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")(k, j)
    torch.testing.assert_close(compiled, want)
    torch.testing.assert_close(torch.autograd.grad(compiled.sum(), k)[0], slope)
    torch.testing.assert_close(torch.vmap(everything)(k, j), want)
    torch.testing.assert_close(torch.vmap(torch.func.grad(everything))(k.detach(), j), slope)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="dim must be at least 2, got 1"):
        bessel.mean_resultant_length(torch.ones(2), 1)
    with pytest.raises(ValueError, match="floating"):
        bessel.log_vmf_normalizer(torch.ones(2, dtype=torch.long), 3)
