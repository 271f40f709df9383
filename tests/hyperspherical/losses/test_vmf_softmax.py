import math

import pytest
import torch
from torch import Tensor

from hyperspherical import VonMisesFisher
from hyperspherical.losses import VonMisesFisherLoss, concentration_for_ratio, embedding_scale
from tests.reference import vmf as reference


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def embeddings(batch: int, dim: int, size: float = 3.0) -> Tensor:
    return torch.randn(batch, dim, dtype=torch.float64, generator=seeded(1)) * size


@pytest.mark.parametrize("normalizer", ["exact", "published"])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_against_loops(dim: int, normalizer: str) -> None:
    loss = VonMisesFisherLoss(7, dim, log_inverse_temperature=0.8, num_samples=3, normalizer=normalizer).double()
    loss.set_embedding_scale(0.5)
    x, y = embeddings(3, dim), [0, 3, 1]
    z, beta = x * loss.embedding_scale, math.exp(loss.log_inverse_temperature.item())
    draws = loss.distribution(x).sample((3,), seeded(5))
    want = reference.vmf_loss(z, loss.class_matrix.detach(), y, beta, draws, normalizer == "published")
    assert loss(x, torch.tensor(y), generator=seeded(5)).item() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("dim", [3, 6])
def test_gradcheck(dim: int) -> None:
    """In classes and temperature. In embeddings draws are carried along and not drawn anew: see the engine's tests."""
    loss = VonMisesFisherLoss(7, dim, num_samples=2).double()
    x, y = embeddings(3, dim), torch.tensor([0, 3, 1])

    def function(w: Tensor, tau: Tensor) -> Tensor:
        parameters = {"class_matrix": w, "log_inverse_temperature": tau}
        return torch.func.functional_call(loss, parameters, (x, y), {"generator": seeded(2)})

    assert torch.autograd.gradcheck(function, (loss.class_matrix, loss.log_inverse_temperature))


def test_is_a_bound_of_the_expected_cross_entropy() -> None:
    torch.manual_seed(0)
    loss = VonMisesFisherLoss(10, 3, log_inverse_temperature=math.log(3), num_samples=20_000).double()
    x, y = embeddings(1, 3), torch.tensor([4])
    z = loss.distribution(x).sample((20_000,), seeded(1))
    w = torch.nn.functional.normalize(loss.class_matrix.detach(), dim=-1)
    classes = VonMisesFisher(w, loss.class_matrix.detach().norm(dim=-1)).sample((20_000,), seeded(2))
    logits = 3 * (classes * z).sum(-1)
    true = torch.nn.functional.cross_entropy(logits, y.expand(20_000))
    assert true.item() <= loss(x, y, generator=seeded(3)).item() + 0.01


def test_prediction_forms_agree_with_drawing_every_class_vector() -> None:
    torch.manual_seed(0)
    for dim in (2, 3, 5):
        loss = VonMisesFisherLoss(4, dim, log_inverse_temperature=1.5, num_samples=20_000).double()
        x = embeddings(2, dim)
        z = loss.distribution(x).sample((20_000,), seeded(1))
        w = loss.class_matrix.detach()
        classes = VonMisesFisher(torch.nn.functional.normalize(w, dim=-1), w.norm(dim=-1)).sample(
            (20_000, 2), seeded(2)
        )
        want = (math.exp(1.5) * torch.einsum("sbyn,sbn->sby", classes, z)).softmax(-1).mean(0)
        torch.testing.assert_close(loss.predict(x, seeded(3)), want, atol=0.01, rtol=0.0)
    loss.num_samples = 300
    torch.testing.assert_close(loss.predict(x, seeded(3), shared_draws=True), want, atol=0.05, rtol=0.0)
    assert torch.equal(loss.predict(x, seeded(3)), loss.predict(x, seeded(3)))


def test_initialisation() -> None:
    assert concentration_for_ratio(0.4, 128) == pytest.approx(60.476, abs=1e-3)
    assert concentration_for_ratio(0.7, 512) == pytest.approx(701.373, abs=1e-3)
    assert concentration_for_ratio(0.4, 3) == pytest.approx(0.95238, abs=1e-5)
    torch.manual_seed(0)
    loss = VonMisesFisherLoss(2000, 128)
    assert loss.class_matrix.std().item() == pytest.approx(5.3454, rel=5e-3)
    assert loss.class_matrix.norm(dim=-1).mean().item() == pytest.approx(60.42, rel=5e-3)
    features = torch.randn(4000, 128) * 7
    for form, size in (("published", 60.476 * math.sqrt(math.pi / 2)), ("exact_mean", 60.476)):
        alpha = embedding_scale(features, 0.4, form)
        assert (alpha * features).norm(dim=-1).mean().item() == pytest.approx(size, rel=5e-3)
        loss.estimate_embedding_scale(features, form)
        assert torch.equal(loss.embedding_scale, alpha) and "embedding_scale" in loss.state_dict()
    loss.set_embedding_scale(features.abs().mean())
    assert loss.embedding_scale.item() == pytest.approx(embedding_scale(features, 0.4).item(), rel=1e-6)


def test_stays_finite_where_float32_used_to_overflow() -> None:
    loss = VonMisesFisherLoss(83, 512, ratio=0.7, log_inverse_temperature=9.0)
    x = (torch.randn(4, 512, generator=seeded(1)) * 30).to(torch.bfloat16)
    x[0] = 0
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x, torch.arange(4), generator=seeded(2))
    value.backward()
    assert value.dtype == torch.float32 and value.isfinite()
    assert x.grad is not None and x.grad.isfinite().all()
    assert loss.class_matrix.grad is not None and loss.class_matrix.grad.isfinite().all()


def test_a_zero_embedding_has_the_gradient_of_its_mean() -> None:
    loss = VonMisesFisherLoss(5, 16).double()
    x = torch.zeros(1, 16, dtype=torch.float64, requires_grad=True)
    logits = loss.logits(x)
    assert torch.equal(logits, torch.zeros_like(logits))
    gradient = torch.autograd.grad(logits[0, 2], x)[0]
    mean = loss.distribution(x).mean
    assert mean.isfinite().all() and gradient.norm() > 0


def test_published_options_and_bad_input() -> None:
    loss = VonMisesFisherLoss(10, 128, sampler="published", normalizer="published")
    x, y = embeddings(5, 128).float(), torch.arange(5)
    assert loss(x, y, generator=seeded(1)).isfinite() and loss.predict(x, seeded(1)).shape == (5, 10)
    for options, message in (
        ({"ratio": 1.0}, "ratio must lie strictly between"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"normalizer": "fast"}, "normalizer must be one of"),
        ({"num_samples": 3, "antithetic": True}, "antithetic needs the exact sampler and an even num_samples"),
        ({"sampler": "published", "antithetic": True}, "antithetic needs the exact sampler"),
    ):
        with pytest.raises(ValueError, match=message):
            VonMisesFisherLoss(3, 8, **options)
    with pytest.raises(ValueError, match="embedding_size must be at least 2"):
        VonMisesFisherLoss(3, 1)
    with pytest.raises(ValueError, match="not all be zero"):
        embedding_scale(torch.zeros(3, 4), 0.4)
