import math

import pytest
import torch
from torch import Tensor

from hyperspherical import VonMisesFisher, bessel
from hyperspherical.losses import expected_softmax as engine
from tests.reference import vmf as reference

CASES = [  # (B, n, Y, S, antithetic)
    (5, 3, 10, 10, True),
    (5, 3, 10, 3, False),
    (6, 2, 3, 4, True),
    (4, 5, 40, 4, True),
    (4, 16, 3, 4, True),
    (4, 16, 3, 5, False),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Problem:
    """A batch with its draws, and the same loss written with vectors instead of inner products."""

    def __init__(self, batch: int, dim: int, classes: int, samples: int, antithetic: bool, seed: int = 1) -> None:
        generator = seeded(seed)
        self.z = torch.randn(batch, dim, dtype=torch.float64, generator=generator) * 3
        self.w = torch.randn(classes, dim, dtype=torch.float64, generator=generator) * 3
        self.beta = torch.tensor(2.3, dtype=torch.float64)
        self.labels = torch.randint(classes, (batch,), generator=generator)
        self.samples, self.antithetic = samples, antithetic
        self.span = engine.span_of(self.w, engine.polar(self.z)[1])
        self.draws = engine.draw(self.z.norm(dim=1), self.span, samples, antithetic, generator)

    def fused(self, dtype: torch.dtype, normalizer: str) -> tuple[Tensor, list[Tensor]]:
        def to(tensors):  # type: ignore[no-untyped-def]
            return type(tensors)(*(None if x is None else x.to(dtype) for x in tensors))

        z, w, beta = self.z.to(dtype), self.w.to(dtype), self.beta.to(dtype)
        total, gradients = engine.total_and_gradients(
            engine.Polar(z, *engine.polar(z)),
            w,
            beta,
            self.labels,
            to(self.span),
            to(self.draws),
            engine.normalizer_for(normalizer, dtype),
        )
        assert gradients is not None
        count = self.samples * len(z)
        return total / count, [gradient / count for gradient in gradients]

    def vectors(self, z: Tensor) -> Tensor:
        """(S, B, n) draws, moving with z as reparameterisation and parallel transport say, to first order."""
        tangents = self.draws.tangent_HBM
        if self.span.basis_NY is not None and self.span.rest_BN is not None:
            tangents = tangents[..., :-1] @ self.span.basis_NY.T + tangents[..., -1:] * self.span.rest_BN
        kappa = z.norm(dim=1)
        mean = z / kappa[:, None]
        angle = torch.atan2(self.draws.sin_AHB, self.draws.cos_AHB)
        angle = angle + self.draws.slope_AHB * (kappa - kappa.detach())
        carried = tangents - (tangents * mean).sum(dim=-1, keepdim=True) * mean
        return (angle.cos()[..., None] * mean + angle.sin()[..., None] * carried).flatten(0, 1)

    def plain(self, normalizer: str) -> tuple[Tensor, tuple[Tensor, ...]]:
        z, w, beta = (x.clone().requires_grad_() for x in (self.z, self.w, self.beta))
        exact = normalizer == "exact"
        step = bessel.log_vmf_normalizer_step if exact else bessel.published_log_vmf_normalizer_step
        quotient = bessel.mean_resultant_quotient if exact else bessel.published_mean_resultant_quotient
        dim = z.shape[1]
        increment = beta.square() + 2 * beta * (self.vectors(z) @ w.T)
        expected = step(w.square().sum(dim=1), increment, dim).logsumexp(dim=-1).mean()
        mean_z, mean_w = (x * quotient(x.square().sum(dim=1), dim)[:, None] for x in (z, w))
        loss = expected - beta * (mean_z * mean_w[self.labels]).sum(dim=1).mean()
        return loss.detach(), torch.autograd.grad(loss, (z, w, beta))


@pytest.mark.parametrize("normalizer", ["exact", "published"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [1 << 16, 7])
def test_value_and_gradient_beside_autograd(
    case: tuple[int, int, int, int, bool], normalizer: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_CHUNK", chunk)
    problem = Problem(*case)
    want, want_gradients = problem.plain(normalizer)
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        value, gradients = problem.fused(dtype, normalizer)
        assert value.item() == pytest.approx(want.item(), rel=tolerance, abs=tolerance)
        for got, wanted in zip(gradients, want_gradients, strict=True):
            assert (got - wanted).norm() < tolerance * wanted.norm()


@pytest.mark.parametrize("case", [(3, 3, 4, 4, True), (2, 2, 3, 3, False), (3, 5, 6, 2, True)])
def test_value_beside_loops(case: tuple[int, int, int, int, bool]) -> None:
    problem = Problem(*case)
    draws = problem.vectors(problem.z)
    for normalizer in ("exact", "published"):
        want = reference.vmf_loss(
            problem.z, problem.w, problem.labels.tolist(), 2.3, draws, published=normalizer == "published"
        )
        assert problem.fused(torch.float64, normalizer)[0].item() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("classes", ["free", "duplicated", "centred"])
def test_draws_in_the_span_have_the_distribution_of_whole_draws(classes: str) -> None:
    """Inner products with the class vectors: mean, covariance and kurtosis, also where the classes are dependent."""
    dim, draws, kappa = 12, 200_000, 9.0
    w = torch.randn(3, dim, dtype=torch.float64, generator=seeded(1))
    if classes == "duplicated":
        w[1] = w[0]
    if classes == "centred":
        w -= w.mean(dim=0)
    mean = torch.nn.functional.normalize(torch.randn(1, dim, dtype=torch.float64, generator=seeded(2)), dim=1)
    results = []
    for whole in (False, True):
        span = engine.Span(w, mean) if whole else engine.span_of(w, mean)
        assert (span.basis_NY is None) == whole
        drawn = engine.draw(torch.tensor([kappa], dtype=torch.float64), span, draws, False, seeded(3))
        z = drawn.cos_AHB[0, :, 0, None] * span.mean_BM + drawn.sin_AHB[0, :, 0, None] * drawn.tangent_HBM[:, 0]
        results.append(z @ span.classes_YM.T)
    seen, whole = results
    error = whole.std(dim=0) * math.sqrt(2 / draws)
    assert ((seen.mean(dim=0) - whole.mean(dim=0)).abs() < 4 * error).all()
    torch.testing.assert_close(seen.T.cov(), whole.T.cov(), rtol=0.02, atol=0.02 * float(whole.T.cov().abs().max()))
    fourth = [((x - x.mean(0)) / x.std(0)).pow(4).mean(0) for x in results]
    torch.testing.assert_close(fourth[0], fourth[1], rtol=0.03, atol=0.0)


@pytest.mark.parametrize(("batch", "dim", "classes"), [(3, 3, 10), (3, 16, 4)])
def test_gradient_is_that_of_independent_draws_of_whole_vectors_and_less_noisy(
    batch: int, dim: int, classes: int
) -> None:
    """Antithetic pairs in the span, beside autograd through the distribution's own samples."""
    generator, repeats = seeded(5), 400
    z = torch.randn(batch, dim, dtype=torch.float64, generator=generator) * 2
    w = torch.randn(classes, dim, dtype=torch.float64, generator=generator) * 2
    beta, labels = torch.tensor(2.0, dtype=torch.float64), torch.arange(batch)
    fused, plain = [], []
    for _ in range(repeats):
        leaves = [x.clone().requires_grad_() for x in (z, w, beta)]
        normalizer = engine.normalizer_for("exact", torch.float64)
        loss = engine.expected_softmax(*leaves, labels, 10, True, normalizer, generator)
        fused.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, leaves)]))
        x, v, b = (t.clone().requires_grad_() for t in (z, w, beta))
        kappa = x.norm(dim=1)
        draws = VonMisesFisher(x / kappa[:, None], kappa).rsample((10,), generator)
        increment = b.square() + 2 * b * (draws @ v.T)
        value = bessel.log_vmf_normalizer_step(v.square().sum(1), increment, dim).logsumexp(-1).mean()
        means = [y * bessel.mean_resultant_quotient(y.square().sum(1), dim)[:, None] for y in (x, v)]
        value = value - b * (means[0] * means[1][labels]).sum(1).mean()
        plain.append(torch.cat([g.flatten() for g in torch.autograd.grad(value, (x, v, b))]))
    ours, theirs = torch.stack(fused), torch.stack(plain)
    error = ((ours.var(dim=0) + theirs.var(dim=0)) / repeats).sqrt()
    assert ((ours.mean(dim=0) - theirs.mean(dim=0)).abs() < 4 * error).all()
    assert ours.var(dim=0).sum() < theirs.var(dim=0).sum()


def test_zero_embeddings_and_class_vectors_have_finite_gradients() -> None:
    for dim, classes in ((3, 5), (16, 3)):
        z, w = torch.randn(4, dim, generator=seeded(1)), torch.randn(classes, dim, generator=seeded(2))
        z[0], w[1] = 0, 0
        leaves = [z.requires_grad_(), w.requires_grad_(), torch.tensor(2.0, requires_grad=True)]
        normalizer = engine.normalizer_for("exact", torch.float32)
        labels = torch.tensor([1, 0, 1, 2])
        loss = engine.expected_softmax(*leaves, labels, 4, True, normalizer, seeded(3))
        assert loss.isfinite() and all(g.isfinite().all() for g in torch.autograd.grad(loss, leaves))


def test_value_without_gradient_is_the_same() -> None:
    z, w, beta = torch.randn(4, 6, generator=seeded(1)), torch.randn(9, 6, generator=seeded(2)), torch.tensor(2.0)
    arguments = (torch.arange(4), 4, True, engine.normalizer_for("exact", torch.float32))
    without = engine.expected_softmax(z, w, beta, *arguments, seeded(3))
    assert torch.equal(without, engine.expected_softmax(z, w.requires_grad_(), beta, *arguments, seeded(3)))
