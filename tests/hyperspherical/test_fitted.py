import pytest
import torch

from hyperspherical import bessel, debye, fitted

DIMS = (2, 3, 4, 5, 8, 15, 16, 64, 128, 512, 2048, 8192)


@pytest.mark.parametrize("dim", DIMS)
def test_step_and_slope_beside_the_exact_functions(dim: int) -> None:
    kappa = torch.logspace(-3, 6, 60, dtype=torch.float64)[:, None, None]
    beta = torch.logspace(-2, 3, 12, dtype=torch.float64)[:, None]
    cosine = torch.linspace(-1, 1, 11, dtype=torch.float64)
    t = kappa.square().float()
    increment = torch.maximum((beta.square() + 2 * kappa * beta * cosine).float(), -t)
    value, slope = fitted.normalizer_step(fitted.at(t.flatten(), dim), increment, dim)
    want = bessel.log_vmf_normalizer_step(t.double(), increment.double(), dim)
    assert ((value - want).abs() / want.abs().clamp_min(1.0)).max() < 1e-5
    # Where nearly all of t is taken away, what float32 leaves of the sum has few digits; elsewhere full ones.
    moved = t.double() + increment
    ample = (moved > 0.5 * t).expand_as(value)
    assert ((value - want).abs() / want.abs().clamp_min(1.0))[ample].max() < (4e-6 if dim == 2 else 2e-6)
    assert (slope / (debye.rho_and_parts(moved, dim / 2 - 1)[0] / 2) - 1)[ample].abs().max() < 2e-6


@pytest.mark.parametrize("dim", DIMS)
def test_quotient_and_its_slope(dim: int) -> None:
    t = torch.cat([torch.zeros(1), torch.logspace(-6, 12, 200)])
    point = fitted.at(t, dim)
    exact_t = t.double().requires_grad_()
    want = bessel.mean_resultant_quotient(exact_t, dim)
    (slope,) = torch.autograd.grad(want.sum(), exact_t)
    assert (point.quotient / want.detach() - 1).abs().max() < 3e-6
    assert (point.quotient_slope / slope - 1).abs().max() < 1e-4


def test_compiles_to_the_same() -> None:
    def function(t: torch.Tensor, increment: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return fitted.normalizer_step(fitted.at(t, 16), increment, 16)

    t, increment = torch.rand(5) * 100, torch.randn(5, 7)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for got, want in zip(compiled(t, increment), function(t, increment), strict=True):
        torch.testing.assert_close(got, want)
