import math

import pytest
import torch

from hyperspherical.sphere import angle, autocast_off, check_unit, normalize


def test_normalize_and_its_gradient_at_zero() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    y = normalize(x)
    assert torch.equal(y[1], torch.zeros(2)) and torch.allclose(y[0], torch.tensor([0.6, 0.8]))
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad[1], torch.zeros(2)) and x.grad.isfinite().all()
    assert torch.autograd.gradcheck(normalize, torch.randn(4, 5, dtype=torch.float64, requires_grad=True))


def test_normalize_twice_differentiated_and_mapped() -> None:
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(normalize, x)
    torch.testing.assert_close(torch.vmap(normalize)(x), normalize(x))
    jacobian = torch.vmap(torch.func.jacrev(normalize))(torch.cat([x.detach(), torch.zeros(1, 5).double()]))
    assert jacobian.isfinite().all() and not jacobian[-1].any()


@pytest.mark.parametrize("enabled", [True, False])
def test_autocast_off(enabled: bool) -> None:
    x = torch.eye(2)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        with autocast_off(x):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == (torch.bfloat16 if enabled else torch.float32)


@pytest.mark.parametrize("theta", [0.0, 1e-6, 1e-4, 0.3, math.pi / 2, 3.0, math.pi - 1e-4, math.pi])
def test_angle_is_exact_everywhere(theta: float) -> None:
    x = torch.tensor([1.0, 0.0, 0.0], requires_grad=True)
    y = torch.tensor([math.cos(theta), math.sin(theta), 0.0])
    result = angle(x, y)
    assert result.item() == pytest.approx(theta, rel=1e-5, abs=1e-7)
    gradient = torch.autograd.grad(result, x)[0]
    along = gradient - gradient[0] * torch.tensor([1.0, 0.0, 0.0])
    expected = 0.0 if theta in (0.0,) else 1.0
    assert gradient.isfinite().all()
    if theta < 3.1:
        assert along.norm().item() == pytest.approx(expected, abs=1e-3)


def test_angle_of_opposite_and_of_dead_features() -> None:
    x = torch.tensor([[0.6, 0.8], [0.0, 0.0]], requires_grad=True)
    result = angle(x, -x.detach())
    assert result[0].item() == pytest.approx(math.pi)
    result.sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="same shape"):
        angle(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ValueError, match="at least one axis"):
        angle(torch.tensor(1.0), torch.tensor(1.0))
    with pytest.raises(ValueError, match="at least one axis"):
        normalize(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"x must be a floating-point tensor, got torch.int64"):
        normalize(torch.ones(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"loc must hold unit vectors, got a length that differs from 1 by 1"):
        check_unit("loc", torch.tensor([2.0, 0.0]))
    check_unit("loc", torch.tensor([2.0, 0.0]), validate_args=False)
