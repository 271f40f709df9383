import math

import pytest
import torch
from torch import Tensor, nn

from hyperspherical.losses import ArcFaceLoss, CosineSoftmaxLoss, HyperbolicSoftmaxLoss, SoftmaxLoss, VonMisesFisherLoss
from tests.reference import softmax as reference

ALL = (SoftmaxLoss, CosineSoftmaxLoss, ArcFaceLoss, HyperbolicSoftmaxLoss, VonMisesFisherLoss)


def data(batch: int = 6, dim: int = 4, classes: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, dim, dtype=torch.float64, generator=generator)
    return x.requires_grad_(), torch.randint(classes, (batch,), generator=generator)


def test_standard_and_cosine() -> None:
    x, y = data()
    plain, cosine = SoftmaxLoss(5, 4).double(), CosineSoftmaxLoss(5, 4, 0.7).double()
    logits = (x @ plain.class_matrix.T).tolist()
    assert plain(x, y).item() == pytest.approx(reference.cross_entropy(logits, y.tolist()))
    logits = reference.arcface_logits(x.detach(), cosine.class_matrix.detach(), y.tolist(), 0.0, math.exp(0.7))
    assert cosine(x, y).item() == pytest.approx(reference.cross_entropy(logits, y.tolist()))
    assert torch.allclose(cosine.predict(x), torch.tensor(logits, dtype=torch.float64).softmax(-1))
    assert cosine.log_inverse_temperature.shape == ()
    cosine.log_inverse_temperature.data.fill_(50.0)
    assert cosine.logits(x).abs().max() <= 1e3 + 1e-9


@pytest.mark.parametrize("margin", [0.0, 0.3, 0.5])
def test_arcface_against_loops_and_pytorch_metric_learning(margin: float) -> None:
    from pytorch_metric_learning.losses import ArcFaceLoss as Oracle

    x, y = data()
    loss = ArcFaceLoss(5, 4, margin, math.log(8)).double()
    logits = reference.arcface_logits(x.detach(), loss.class_matrix.detach(), y.tolist(), margin, 8.0)
    assert loss(x, y).item() == pytest.approx(reference.cross_entropy(logits, y.tolist()))
    oracle = Oracle(5, 4, margin=math.degrees(margin), scale=8).double()
    oracle.W.data.copy_(loss.class_matrix.data.T)
    assert loss(x, y).item() == pytest.approx(oracle(x, y).item(), rel=1e-7)
    loss.margin = 0.0
    plain = CosineSoftmaxLoss(5, 4, math.log(8)).double()
    plain.class_matrix.data.copy_(loss.class_matrix.data)
    assert loss(x, y).item() == pytest.approx(plain(x, y).item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["published", "monotone"])
def test_arcface_gradients_at_zero_and_pi(dtype: torch.dtype, form: str) -> None:
    loss = ArcFaceLoss(2, 3, form=form, log_inverse_temperature=3.0)
    loss.class_matrix.data.copy_(torch.eye(3)[:2])
    x = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0], [1.0, 1e-4, 0], [-1.0, 1e-4, 0], [0, 0, 0]], dtype=dtype)
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x, torch.zeros(5, dtype=torch.long))
    value.backward()
    assert value.dtype == torch.float32 and value.isfinite()
    assert x.grad is not None and x.grad.isfinite().all()
    assert loss.class_matrix.grad is not None and loss.class_matrix.grad.isfinite().all()


def test_arcface_monotone_form_never_rewards_the_opposite_side() -> None:
    theta = torch.linspace(0.0, math.pi, 200, dtype=torch.float64)
    x = torch.stack([theta.cos(), theta.sin(), 0 * theta], dim=-1)
    grows = {}
    for form in ("published", "monotone"):
        loss = ArcFaceLoss(2, 3, form=form).double()
        loss.class_matrix.data.copy_(torch.eye(3)[[0, 2]])  # class 1 is orthogonal to the whole path
        values = torch.stack([loss(row[None], torch.tensor([0])) for row in x])
        grows[form] = bool((values.diff() > 0).all())
    assert grows == {"published": False, "monotone": True}


@pytest.mark.parametrize("curvature", [1e-5, 0.05, 1.0])
def test_hyperbolic_against_loops(curvature: float) -> None:
    x, y = data()
    loss = HyperbolicSoftmaxLoss(5, 4, curvature).double()
    want = reference.hyperbolic_logits(x.detach(), loss.normals.detach(), loss.offsets.detach(), curvature)
    torch.testing.assert_close(loss.logits(x), torch.tensor(want, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert loss(x, y).item() == pytest.approx(reference.cross_entropy(want, y.tolist()))
    assert loss.no_weight_decay == ("normals", "offsets")


def test_hyperbolic_riemannian_gradient_and_rim() -> None:
    x, y = data()
    scaled, plain = (HyperbolicSoftmaxLoss(5, 4, 0.1, riemannian_gradient=on).double() for on in (True, False))
    plain.load_state_dict(scaled.state_dict())
    gradients = [torch.autograd.grad(loss(x, y), x)[0] for loss in (scaled, plain)]
    factor = (1 - 0.1 * scaled.to_ball(x).square().sum(-1, keepdim=True)).square() / 4
    torch.testing.assert_close(gradients[0], gradients[1] * factor)
    far = (x.detach() * 1e4).float().requires_grad_()
    value = HyperbolicSoftmaxLoss(5, 4, 1.0)(far, y)
    assert value.isfinite() and torch.autograd.grad(value, far)[0].isfinite().all()


@pytest.mark.parametrize("kind", ALL[:4])
def test_gradcheck(kind: type[nn.Module]) -> None:
    x, y = data(4, 3, 5)
    options = {"curvature": 0.3, "riemannian_gradient": False} if kind is HyperbolicSoftmaxLoss else {}
    loss = kind(5, 3, **options).double()
    names, values = zip(*loss.named_parameters(), strict=True)

    def function(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(loss, dict(zip(names, parameters, strict=True)), (x, y))

    assert torch.autograd.gradcheck(function, (x, *values))


@pytest.mark.parametrize("kind", ALL)
def test_contract_and_bad_input(kind: type[nn.Module]) -> None:
    loss = kind(5, 4)
    x, y = data()
    x = x.float()
    value = loss(x, y, generator=torch.Generator().manual_seed(1))
    assert value.shape == () and value.isfinite()
    p = loss.predict(x, generator=torch.Generator().manual_seed(1))
    assert p.shape == loss.logits(x).shape == (6, 5) and torch.allclose(p.sum(-1), torch.ones(6))
    with pytest.raises(ValueError, match=r"embeddings must have shape \(B, 4\), got \(6, 3\)"):
        loss(x[:, :3], y)
    with pytest.raises(ValueError, match=r"labels must lie in 0 ... 4, got values from"):
        loss(x, y + 5)
    with pytest.raises(ValueError, match=r"labels must lie in 0 ... 4, got values from -100"):
        loss(x, torch.full_like(y, -100))  # cross entropy alone would leave these out
    with pytest.raises(ValueError, match=r"labels must have shape \(6,\), got \(6, 1\)"):
        loss(x, y[:, None])
    with pytest.raises(ValueError, match=r"labels must have shape \(6,\), got \(5,\)"):
        loss(x, y[:5])
    with pytest.raises(ValueError, match="integer tensor"):
        loss(x, y.float())
    with pytest.raises(ValueError, match="num_classes must be at least 1, got 0"):
        kind(0, 4)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="margin"):
        ArcFaceLoss(3, 3, margin=-0.1)
    with pytest.raises(ValueError, match="form must be one of"):
        ArcFaceLoss(3, 3, form="easy")
    with pytest.raises(ValueError, match="curvature"):
        HyperbolicSoftmaxLoss(3, 3, curvature=0.0)
    with pytest.raises(ValueError, match=r"embeddings must have shape \(B, 3\), got \(2, 1\)"):
        HyperbolicSoftmaxLoss(3, 3).to_ball(torch.ones(2, 1))
