import math

import pytest
import torch

from hyperspherical.losses import AngularMarginContrastiveLoss, EuclideanContrastiveLoss, pair_labels


def test_against_loops() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 5, dtype=torch.float64)
    x[4:] = x[:4] + 0.3 * torch.randn(4, 5, dtype=torch.float64)
    same = torch.tensor([True, False, False, True])
    angular, euclidean = 0.0, 0.0
    for k in range(4):
        cosine = float(x[k] @ x[k + 4] / (x[k].norm() * x[k + 4].norm()))
        theta, apart = math.acos(cosine), float((x[k] - x[k + 4]).norm())
        angular += theta**2 if same[k] else max(0.0, 0.5 - theta) ** 2
        euclidean += apart**2 if same[k] else max(0.0, 1.0 - apart) ** 2
    assert AngularMarginContrastiveLoss()(x, same).item() == pytest.approx(angular / 4)
    assert EuclideanContrastiveLoss()(x, same).item() == pytest.approx(euclidean / 4)
    for loss in (AngularMarginContrastiveLoss(2.0), EuclideanContrastiveLoss(4.0)):
        assert torch.autograd.gradcheck(lambda x, f=loss: f(x, same), x.requires_grad_())


@pytest.mark.parametrize("loss", [AngularMarginContrastiveLoss(math.pi), EuclideanContrastiveLoss()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_at_coincidence_opposition_and_zero(loss: torch.nn.Module, dtype: torch.dtype) -> None:
    first = torch.tensor([[1.0, 0], [1.0, 0], [1.0, 0], [0, 0], [0, 0]])
    second = torch.tensor([[1.0, 0], [-1.0, 0], [1.0, 1e-4], [0, 0], [1.0, 0]])
    for same in (True, False):
        x = torch.cat([first, second]).to(dtype).requires_grad_()
        value = loss(x, torch.full((5,), same))
        value.backward()
        assert value.isfinite() and x.grad is not None and x.grad.isfinite().all()


def test_close_pairs_still_attract() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 1e-4]], requires_grad=True)
    AngularMarginContrastiveLoss()(x, torch.tensor([True])).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad[1, 1].item(), 2e-4, rtol=1e-2, atol=0.0)


def test_pair_labels_and_bad_input() -> None:
    assert pair_labels(torch.tensor([0, 1, 2, 0, 2, 2])).tolist() == [True, False, True]
    loss = AngularMarginContrastiveLoss()
    with pytest.raises(ValueError, match=r"\(2M,\)"):
        pair_labels(torch.arange(3))
    with pytest.raises(ValueError, match=r"labels must be an integer tensor, got torch.float32"):
        pair_labels(torch.ones(4))
    with pytest.raises(ValueError, match=r"features must have shape \(2M, D\), got \(4,\)"):
        loss(torch.ones(4), torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="even number of rows"):
        loss(torch.ones(3, 2), torch.ones(1, dtype=torch.bool))
    with pytest.raises(ValueError, match="bool"):
        loss(torch.ones(4, 2), torch.ones(2))
    with pytest.raises(ValueError, match=r"pair_labels must have shape \(2,\), got \(4,\)"):
        loss(torch.ones(4, 2), torch.ones(4, dtype=torch.bool))
    with pytest.raises(ValueError, match="margin"):
        AngularMarginContrastiveLoss(0.0)
    with pytest.raises(ValueError, match="margin"):
        EuclideanContrastiveLoss(-1.0)
