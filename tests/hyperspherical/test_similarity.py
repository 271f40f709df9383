import math

import numpy as np
import pytest
import torch
from torch.distributions import kl_divergence

from hyperspherical import VonMisesFisher
from hyperspherical.losses import in_batch_loss, info_nce
from hyperspherical.similarity import (
    DIVERGENCES,
    CosineSimilarity,
    DivergenceSimilarity,
    VonMisesParameters,
    cosine_similarity,
    feature_average_similarity,
    fit_von_mises_fisher,
)
from tests.reference import contrastive as reference


def views(batch: int, count: int = 3, dim: int = 16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    centre = torch.randn(batch, 1, dim, dtype=torch.float64, generator=generator)
    return centre + 0.7 * torch.randn(batch, count, dim, dtype=torch.float64, generator=generator)


def parameters(resultant: float, dim: int, angle: float = 0.0) -> VonMisesParameters:
    """Parameters as fitted from views whose shrunk mean resultant length is 0.95 `resultant`."""
    r = 0.95 * resultant
    direction = torch.zeros(1, dim, dtype=torch.float64)
    direction[0, 0], direction[0, 1] = math.cos(angle), math.sin(angle)
    kappa = torch.tensor([r * (dim - r * r) / (1 - r * r) / dim], dtype=torch.float64)
    return VonMisesParameters(direction, kappa, torch.tensor([r], dtype=torch.float64))


def test_cosine_and_feature_average_against_loops() -> None:
    q, k = views(3), views(5, seed=1)
    for b in range(3):
        for i in range(5):
            assert cosine_similarity(q[:, 0], k[:, 0])[b, i].item() == pytest.approx(reference.cosine(q[b, 0], k[i, 0]))
            mean = np.mean([reference.cosine(x, y) for x in q[b] for y in k[i]])
            assert feature_average_similarity(q, k)[b, i].item() == pytest.approx(mean)


@pytest.mark.parametrize("by_dimension", [True, False])
@pytest.mark.parametrize("mean_length", ["published", "exact"])
def test_divergence_against_loops(mean_length: str, by_dimension: bool) -> None:
    q, k = views(3), views(5, seed=1)
    similarity = DivergenceSimilarity(0.7, normalise_by_dimension=by_dimension, mean_length=mean_length)
    logits = similarity(q, k)
    for b in range(3):
        for i in range(5):
            fits = (reference.fit(x, 0.95, by_dimension) for x in (q[b], k[i]))
            want = -reference.kl(*fits, exact=mean_length == "exact") / 0.7
            assert logits[b, i].item() == pytest.approx(want, rel=1e-9, abs=1e-11)
    torch.testing.assert_close(similarity.pairwise(q, k[:3]), logits[:, :3].diagonal())
    torch.testing.assert_close(similarity(similarity.fit(q), similarity.fit(k)), logits)


def test_exact_form_is_the_divergence_of_the_distributions() -> None:
    similarity = DivergenceSimilarity(mean_length="exact")
    q, k = similarity.fit(views(3)), similarity.fit(views(3, seed=1))
    p, r = (VonMisesFisher(x.mean_direction, x.concentration) for x in (q, k))
    torch.testing.assert_close(-similarity.pairwise(q, k), kl_divergence(p, r))
    assert (similarity(q, k) <= 0).all()
    torch.testing.assert_close(similarity.pairwise(q, q), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0.0)
    jeffreys = DivergenceSimilarity(mean_length="exact", divergence="jeffreys")
    torch.testing.assert_close(-jeffreys.pairwise(q, k), kl_divergence(p, r) + kl_divergence(r, p))
    torch.testing.assert_close(jeffreys(q, k).diagonal(), jeffreys.pairwise(q, k))


def test_renyi_is_between_its_limits() -> None:
    q, k = (fit_von_mises_fisher(views(4, seed=s)) for s in (0, 1))
    exact = DivergenceSimilarity(mean_length="exact")
    near_one = DivergenceSimilarity(divergence="renyi", order=1 - 1e-6)
    torch.testing.assert_close(near_one(q, k), exact(q, k), rtol=1e-4, atol=1e-6)
    half = DivergenceSimilarity(divergence="renyi")
    torch.testing.assert_close(half(q, k), half(k, q).T)
    torch.testing.assert_close(half(q, k).diagonal(), half.pairwise(q, k))
    assert (half(q, k) <= 0).all() and half.pairwise(q, q).abs().max() < 1e-12
    assert torch.autograd.gradcheck(lambda x, y: half(x, y), (views(2).requires_grad_(), views(3).requires_grad_()))


def test_published_values() -> None:
    fitted = fit_von_mises_fisher(torch.ones(1, 2, 128, dtype=torch.float64))
    assert fitted.concentration.item() == pytest.approx(9.6749, abs=5e-5)
    raw = fit_von_mises_fisher(torch.ones(1, 2, 128, dtype=torch.float64), normalise_by_dimension=False)
    assert raw.concentration.item() == pytest.approx(1238.4, abs=0.05)
    similarity = DivergenceSimilarity()
    same = similarity(parameters(0.9, 256), parameters(0.9, 256, math.pi / 3))
    assert -same.item() == pytest.approx(1.3550, abs=5e-4)
    apart = similarity(parameters(0.9, 256), parameters(0.6, 256))
    assert -apart.item() == pytest.approx(1.971, abs=2e-3)


def test_theorem_1_equal_concentrations_are_info_nce() -> None:
    """With one kappa and one A for all, the similarity is A kappa (cos - 1): InfoNCE at temperature 1 / (A kappa)."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(6, 1, 32, dtype=torch.float64, generator=generator) for _ in range(2))
    logits = DivergenceSimilarity()(q, k)
    kappa, a = fit_von_mises_fisher(q).concentration[0].item(), 0.95
    torch.testing.assert_close(logits, a * kappa * (cosine_similarity(q[:, 0], k[:, 0]) - 1))
    assert in_batch_loss(logits).item() == pytest.approx(info_nce(q[:, 0], k[:, 0], 1 / (a * kappa)).item())
    ones = torch.ones(6, dtype=torch.float64)
    unit = [VonMisesParameters(torch.nn.functional.normalize(x[:, 0], dim=-1), ones, ones) for x in (q, k)]
    torch.testing.assert_close(DivergenceSimilarity()(*unit), cosine_similarity(q[:, 0], k[:, 0]) - 1)


@pytest.mark.parametrize("mean_length", ["published", "exact"])
@pytest.mark.parametrize("divergence", ["kl", "jeffreys"])
def test_gradcheck(mean_length: str, divergence: str) -> None:
    similarity = DivergenceSimilarity(mean_length=mean_length, divergence=divergence)
    arguments = (views(2, 2, 8).requires_grad_(), views(3, 2, 8, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: similarity(x, y), arguments)


def test_a_queue_without_resultants_and_low_precision() -> None:
    q, k = views(3), fit_von_mises_fisher(views(5, seed=1))
    similarity = DivergenceSimilarity()
    stored = VonMisesParameters(k.mean_direction, k.concentration)
    assert torch.equal(similarity(q, k), similarity(q, stored))
    fitted = similarity.fit(q)
    torch.testing.assert_close(
        similarity(VonMisesParameters(*fitted[:2]), k), similarity(fitted, k), rtol=0.02, atol=0.01
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = similarity(q.float(), views(5, seed=1).float())
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, similarity(q, k).float(), rtol=1e-4, atol=1e-4)


def test_keys_with_one_concentration() -> None:
    """As a queue has it: one number, expanded. The same logits and gradients as with a number of its own each."""
    k = fit_von_mises_fisher(views(5, seed=1)).mean_direction
    kappa = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    results = []
    for concentration in (kappa.expand(5), kappa.expand(5).clone()):
        q, stored = views(3).requires_grad_(), VonMisesParameters(k, concentration)
        logits = DivergenceSimilarity(0.7)(q, stored)
        gradients = torch.autograd.grad(logits.square().sum(), (q, kappa))
        results.append((logits, DivergenceSimilarity(0.7).pairwise(views(5), stored), *gradients))
    for shared, own in zip(*results, strict=True):
        torch.testing.assert_close(shared, own)


@pytest.mark.parametrize("divergence", ["kl", "jeffreys", "renyi"])
def test_keys_of_another_type(divergence: str) -> None:
    similarity = DivergenceSimilarity(divergence=divergence)
    q, k = views(3), views(5, seed=1)
    logits = similarity(q.float(), similarity.fit(k))
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, similarity(q, k).float(), rtol=1e-4, atol=1e-4)


def test_coinciding_and_cancelling_views_have_finite_gradients() -> None:
    x = torch.ones(2, 2, 8)
    x[1, 1] = -1
    for shrinkage in (0.95, 1.0):
        z = x.clone().requires_grad_()
        logits = DivergenceSimilarity(shrinkage=shrinkage)(z, z.detach())
        logits.sum().backward()
        assert logits.isfinite().all() and z.grad is not None and z.grad.isfinite().all()


def test_bad_input() -> None:
    similarity = DivergenceSimilarity()
    with pytest.raises(ValueError, match=r"queries must have shape \(B, V, D\), got \(3, 16\)"):
        similarity(torch.ones(3, 16), views(3))
    with pytest.raises(ValueError, match="keys must have shape"):
        similarity(views(3), views(3, dim=8))
    with pytest.raises(ValueError, match="keys must be a tensor of views or VonMisesParameters, got list"):
        similarity(views(3), [1])
    cosine, fitted = CosineSimilarity(), fit_von_mises_fisher(views(3))
    for method in (similarity.pairwise, cosine.pairwise):
        with pytest.raises(ValueError, match=r"keys must have shape \(3, 16\), got \(1, 16\)"):
            method(fitted, fit_von_mises_fisher(views(1)))
    with pytest.raises(ValueError, match="queries must be VonMisesParameters, got Tensor"):
        cosine(views(3), fitted)
    with pytest.raises(ValueError, match="views must be one per image for the cosine, got 3"):
        cosine.fit(views(3))
    with pytest.raises(ValueError, match=r"keys.concentration must have shape \(3,\), got \(1,\)"):
        similarity(fitted, fitted._replace(concentration=torch.ones(1)))
    with pytest.raises(ValueError, match=r"queries.mean_resultant must have shape \(3,\), got \(3, 1\)"):
        similarity(fitted._replace(mean_resultant=torch.ones(3, 1)), fitted)
    with pytest.raises(ValueError, match=r"keys must have shape \(K, V, 16\), got \(3, 16\)"):
        feature_average_similarity(views(3), views(3)[:, 0])
    with pytest.raises(ValueError, match="temperature"):
        DivergenceSimilarity(temperature=0.0)
    with pytest.raises(ValueError, match="shrinkage"):
        fit_von_mises_fisher(views(3), shrinkage=1.5)
    with pytest.raises(ValueError, match="mean_length must be one of"):
        DivergenceSimilarity(mean_length="banerjee")


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_queue_may_be_overwritten_before_backward(divergence: str) -> None:
    queue = torch.nn.functional.normalize(torch.randn(6, 8), dim=1)
    keys = VonMisesParameters(queue, torch.tensor(2.0).expand(6))
    views = torch.randn(3, 2, 8, requires_grad=True)
    logits = DivergenceSimilarity(divergence=divergence)(views, keys)
    queue[:3] = 0
    (gradient,) = torch.autograd.grad(logits.sum(), views)
    assert gradient.isfinite().all()
