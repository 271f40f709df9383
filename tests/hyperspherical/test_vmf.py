import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.accuracy import SETTINGS
from hyperspherical import HypersphericalUniform, VonMisesFisher, bessel
from hyperspherical.samplers import angle_at, sample_radial
from tests.reference import bessel as exact
from tests.reference import vmf as reference


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(dim: int, kappa: float, dtype: torch.dtype = torch.float32, seed: int = 0) -> VonMisesFisher:
    loc = torch.randn(dim, generator=seeded(seed), dtype=torch.float64)
    return VonMisesFisher((loc / loc.norm()).to(dtype), torch.tensor(kappa, dtype=dtype))


@pytest.mark.parametrize(("dim", "kappa"), SETTINGS)
def test_radial_mean_distribution_and_gradient(dim: int, kappa: float) -> None:
    draws = 200_000
    k = torch.tensor([kappa], dtype=torch.float64, requires_grad=True)
    cos = sample_radial(k, dim, draws, seeded(1))[0]
    want = exact.vmf(dim, kappa)
    assert abs(cos.mean().item() - float(want["A"])) < 4 * cos.std().item() / math.sqrt(draws)
    w, cdf = reference.marginal_cdf(dim, kappa)
    assert stats.kstest(cos.detach().numpy()[:, 0], lambda x: np.interp(x, w, cdf)).pvalue > 1e-3

    gradient = torch.autograd.grad(cos.mean(), k)[0].item()
    many = torch.full((5000,), kappa, dtype=torch.float64, requires_grad=True)
    each = torch.autograd.grad(sample_radial(many, dim, 1, seeded(2))[0].sum(), many)[0]
    assert abs(gradient - float(want["dA"])) < 4 * each.std().item() / math.sqrt(draws)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 8, 16, 64, 128, 512, 2048])
def test_quantiles(dim: int) -> None:
    """The distribution function, by Gauss-Legendre quadrature between neighbouring quantiles, is Phi(xi)."""
    kappa = torch.cat([torch.zeros(1), torch.logspace(-3, 8, 45)]).double()
    xi = torch.linspace(-6, 6, 121, dtype=torch.float64)
    phi = angle_at(kappa, xi[:, None].expand(-1, len(kappa)), dim)[0]
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(24))
    low, half = phi[:-1, :, None], phi.diff(dim=0)[..., None] / 2
    angles = low + half * (nodes + 1)
    log_area = math.log(2) + 0.5 * (dim - 1) * math.log(math.pi) - math.lgamma((dim - 1) / 2)
    scale = bessel.log_vmf_normalizer(kappa, dim) + kappa + log_area
    exponent = scale[:, None] - 2 * kappa[:, None] * torch.sin(angles / 2).square()
    density = torch.exp(exponent + (dim - 2) * torch.log(torch.sin(angles).abs()))
    mass = (density * weights * half).sum(dim=-1).cumsum(dim=0)
    want = torch.special.ndtr(xi[1:]) - torch.special.ndtr(xi[0])
    assert (mass - want[:, None]).abs().max() < (3e-6 if dim == 2 else 2e-7)


@pytest.mark.parametrize(("dim", "kappa"), SETTINGS)
def test_samples_are_unit_and_have_the_right_mean(dim: int, kappa: float) -> None:
    p = make(dim, kappa)
    chunks, size = (10, 20_000) if dim < 512 else (10, 2_000)
    generator = seeded(3)
    parts = []
    for _ in range(chunks):
        x = p.sample((size,), generator)
        assert (x.norm(dim=-1) - 1).abs().max() < 1e-5
        parts.append((x @ p.loc).double())
    along = torch.cat(parts)
    want = float(exact.vmf(dim, kappa)["A"])
    # float32 vectors are of unit length to 1e-7, which counts beside the standard error of 2e-6 at most here
    assert abs(along.mean().item() - want) < 4 * along.std().item() / math.sqrt(len(along)) + 2e-7


@pytest.mark.parametrize("kappa", [0.0, 1e-9, 1e-5, 1e-2, 1e4, 1e8])
@pytest.mark.parametrize("dim", [2, 3, 4, 128])
def test_extreme_concentrations(dim: int, kappa: float) -> None:
    k = torch.tensor([kappa], dtype=torch.float64, requires_grad=True)
    cos, sin = sample_radial(k, dim, 20_000, seeded(4))
    assert (cos.square() + sin.square() - 1).abs().max() < 1e-9
    drop, want = 1 - cos, 1 - bessel.mean_resultant_length(k.detach(), dim)
    assert abs(drop.mean() - want).item() < 4 * drop.std().item() / math.sqrt(20_000) + 1e-15
    gradient = torch.autograd.grad(cos.mean(), k)[0]
    slope = bessel.mean_resultant_slope(k.detach(), dim)
    assert gradient.item() == pytest.approx(slope.item(), rel=0.05)
    x = VonMisesFisher(torch.eye(dim)[0], torch.tensor(kappa)).sample((1000,), seeded(5))
    assert x.isfinite().all() and (x.norm(dim=-1) - 1).abs().max() < 1e-5


@pytest.mark.parametrize(("dim", "kappa"), SETTINGS)
def test_loc_gradient_of_a_quadratic(dim: int, kappa: float) -> None:
    """E[x^T M x] = rho tr(M) + (1 - n rho) mu^T M mu with rho = A / kappa; its gradient along a tangent is known."""
    generator = seeded(6)
    draws = 200_000 if dim < 64 else 20_000 if dim < 512 else 2_000
    loc = make(dim, kappa, torch.float64).loc
    # M of rank two: f is the product of two inner products, one with loc so that the gradient is well above its noise.
    left, right = loc + 0.5 * make(dim, 1.0, torch.float64, 1).loc, make(dim, 1.0, torch.float64, 2).loc
    tangent = right - (right @ loc) * loc
    locs = loc.expand(draws, dim).clone().requires_grad_()
    x = VonMisesFisher(locs, torch.full((draws,), kappa, dtype=torch.float64)).rsample((), generator)
    along = torch.autograd.grad(((x @ left) * (x @ right)).sum(), locs)[0] @ tangent
    a = float(exact.vmf(dim, kappa)["A"])
    want = (1 - dim * a / kappa) * ((left @ loc) * (right @ tangent) + (right @ loc) * (left @ tangent))
    assert abs(along.mean() - want) < 4 * along.std() / math.sqrt(draws)


def test_loc_gradient_variance_is_the_same_near_the_first_axis() -> None:
    dim, kappa, draws = 128, 60.5, 2000
    # A fresh random direction per draw: the variance summed over the tangent space is that of the whole Jacobian.
    weights = torch.randn(draws, dim, dtype=torch.float64, generator=seeded(7))
    variances, published = [], []
    for distance in (1.0, 0.1, 0.001):
        direction = torch.nn.functional.normalize(torch.randn(dim - 1, dtype=torch.float64, generator=seeded(8)), dim=0)
        loc = torch.cat([torch.tensor([math.cos(distance)], dtype=torch.float64), math.sin(distance) * direction])
        for sampler, results in (("exact", variances), ("published", published)):
            locs = loc.expand(draws, dim).clone().requires_grad_()
            p = VonMisesFisher(locs, torch.full((draws,), kappa, dtype=torch.float64))
            gradient = torch.autograd.grad((p.rsample((), seeded(9), sampler) * weights).sum(), locs)[0]
            tangent = gradient - (gradient @ loc)[:, None] * loc
            results.append(tangent.var(dim=0).sum().item())
    assert max(variances) < 1.5 * min(variances)
    assert max(published) > 100 * max(variances)


def test_draws_repeat_and_are_independent() -> None:
    p = VonMisesFisher(torch.eye(8)[:1].expand(4000, 8), torch.full((4000,), 4.0))
    first, again, other = (p.sample((2,), seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    w = first[..., 0]
    assert abs(torch.corrcoef(w)[0, 1]) < 0.08
    assert abs(torch.corrcoef(torch.stack([w[0, :-1], w[0, 1:]]))[0, 1]) < 0.08


def test_published_sampler_is_wrong_as_published() -> None:
    cos = sample_radial(torch.tensor([60.5]), 128, 50_000, seeded(1), "published")[0]
    assert cos.mean().item() == pytest.approx(0.310, abs=2e-3)
    cos = sample_radial(torch.tensor([4.0]), 8, 50_000, seeded(1), "published")[0]
    assert cos.mean().item() == pytest.approx(float(exact.vmf(8, 4.0)["A"]), abs=5e-3)
    k = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(sample_radial(k, 5, 100_000, seeded(2), "published")[0].mean(), k)[0]
    assert slope.item() == pytest.approx(0.1277, abs=2e-3)  # the true value is 0.1474
    x = make(5, 2.0).sample((100,), seeded(1), "published")
    assert (x.norm(dim=-1) - 1).abs().max() < 1e-5


def test_log_prob_against_scipy_and_its_gradient() -> None:
    for dim, kappa in ((2, 1.5), (3, 0.2), (5, 30.0), (40, 100.0)):
        p = make(dim, kappa, torch.float64)
        x = p.sample((5,), seeded(1))
        want = stats.vonmises_fisher(p.loc.numpy(), kappa).logpdf(x.numpy())
        np.testing.assert_allclose(p.log_prob(x).numpy(), want, rtol=1e-10)
        assert p.entropy().item() == pytest.approx(stats.vonmises_fisher(p.loc.numpy(), kappa).entropy(), rel=1e-9)
    k = torch.tensor([0.7, 40.0], dtype=torch.float64, requires_grad=True)
    loc = torch.eye(6, dtype=torch.float64)[:2]
    x = torch.nn.functional.normalize(torch.randn(2, 6, dtype=torch.float64, generator=seeded(1)), dim=-1)
    assert torch.autograd.gradcheck(lambda c: VonMisesFisher(loc, c).log_prob(x), k)
    assert torch.autograd.gradcheck(lambda c: VonMisesFisher(loc, c).entropy(), k)


def test_mean_variance_and_large_concentrations() -> None:
    p = make(6, 3.0, torch.float64)
    x = p.sample((200_000,), seeded(1))
    assert ((x.mean(dim=0) - p.mean).abs() < 5 * x.std(dim=0) / math.sqrt(200_000)).all()
    torch.testing.assert_close(x.var(dim=0), p.variance, rtol=0.03, atol=0.0)
    sharp = make(128, 1e8)
    assert sharp.log_prob(sharp.sample((3,), seeded(1))).isfinite().all() and sharp.entropy().isfinite()


def test_kl_divergences() -> None:
    p, q = make(5, 3.0, torch.float64, 1), make(5, 8.0, torch.float64, 2)
    x = p.sample((200_000,), seeded(1))
    difference = p.log_prob(x) - q.log_prob(x)
    assert abs(kl_divergence(p, q) - difference.mean()) < 4 * difference.std() / math.sqrt(len(x))
    assert kl_divergence(p, p).item() == 0
    assert kl_divergence(make(64, 1e6, torch.float64), make(64, 1e6 + 1, torch.float64)).item() >= 0
    u = HypersphericalUniform(5, dtype=torch.float64)
    assert kl_divergence(p, u).item() == pytest.approx((u.entropy() - p.entropy()).item(), rel=1e-9)
    assert kl_divergence(make(5, 0.0, torch.float64), u).item() == 0
    assert u.log_prob(x[:3]).shape == (3,) and (u.sample((4,), seeded(1)).norm(dim=-1) - 1).abs().max() < 1e-12
    with pytest.raises(ValueError, match="same sphere"):
        kl_divergence(p, make(6, 1.0, torch.float64))


def test_shapes_and_expand() -> None:
    p = VonMisesFisher(torch.eye(4)[:3], torch.tensor([1.0, 2.0, 3.0]))
    assert p.batch_shape == (3,) and p.event_shape == (4,)
    assert p.rsample((2, 5)).shape == (2, 5, 3, 4)
    grown = p.expand((7, 3))
    assert grown.batch_shape == (7, 3) and grown.sample().shape == (7, 3, 4) and grown.log_prob(p.loc).shape == (7, 3)
    assert VonMisesFisher(torch.eye(4)[0], 2.0).mean.shape == (4,)
    assert VonMisesFisher(torch.eye(4, dtype=torch.bfloat16), 2.0).sample().dtype == torch.float32


@pytest.mark.parametrize(
    ("loc", "kappa", "message"),
    [
        (torch.ones(3), torch.tensor(1.0), "loc must hold unit vectors"),
        (torch.ones(1), torch.tensor(1.0), "n >= 2"),
        (torch.eye(3), torch.tensor([-1.0, 1.0, 1.0]), "concentration must be finite and not negative, got -1"),
        (torch.eye(3), torch.tensor(math.nan), "concentration must be finite"),
        (torch.eye(3), torch.ones(2), "broadcasts"),
        (torch.eye(3, dtype=torch.long), torch.tensor(1.0), "floating"),
        ([1.0, 0.0], torch.tensor(1.0), "loc must be a tensor, got list"),
        (torch.eye(3), "large", "concentration must be a tensor or a number, got str"),
    ],
)
def test_bad_parameters(loc: Tensor, kappa: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VonMisesFisher(loc, kappa)


def test_uniform_distribution() -> None:
    p = HypersphericalUniform(5, (2,), dtype=torch.float64).expand((3, 2))
    x = p.sample((50_000,), seeded(1))
    assert x.shape == (50_000, 3, 2, 5) and p.mean.shape == p.variance.shape == (3, 2, 5)
    assert ((x.mean(dim=0) - p.mean).abs() < 5 * x.std(dim=0) / math.sqrt(50_000)).all()
    torch.testing.assert_close(x.var(dim=0), p.variance, rtol=0.03, atol=0.0)
    assert torch.equal(p.log_prob(x[0]), -p.entropy())
    with pytest.raises(ValueError, match="value must hold unit vectors"):
        p.log_prob(2 * x[0])
    with pytest.raises(ValueError, match="dtype must be floating point"):
        HypersphericalUniform(5, dtype=torch.int64)


def test_bad_arguments() -> None:
    p = make(3, 1.0)
    with pytest.raises(ValueError, match="value must hold unit vectors"):
        p.log_prob(torch.ones(3))
    with pytest.raises(ValueError, match="sampler must be one of"):
        p.sample((), sampler="fast")
