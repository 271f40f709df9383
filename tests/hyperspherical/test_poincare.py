import math

import pytest
import torch

from hyperspherical import poincare
from tests.reference import softmax as reference

POINTS = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("curvature", [0.05, 1.0])
def test_against_geoopt(curvature: float) -> None:
    import geoopt

    ball = geoopt.PoincareBallExact(c=curvature)
    x = poincare.exponential_map_at_zero(POINTS[:3], curvature)
    y = poincare.exponential_map_at_zero(POINTS[3:], curvature)
    torch.testing.assert_close(x, ball.expmap0(POINTS[:3]))
    torch.testing.assert_close(poincare.mobius_add(x, y, curvature), ball.mobius_add(x, y))
    torch.testing.assert_close(poincare.distance(x, y, curvature), ball.dist(x, y))
    torch.testing.assert_close(poincare.distance_matrix(x, y, curvature).diagonal(), ball.dist(x, y))


@pytest.mark.parametrize("curvature", [1e-5, 1.0])
def test_against_loops_and_the_rim(curvature: float) -> None:
    for u in (POINTS[0], POINTS[0] * 1e5, POINTS[0] * 0):
        torch.testing.assert_close(
            poincare.exponential_map_at_zero(u, curvature), reference.exp_zero(u, curvature), rtol=1e-12, atol=1e-12
        )
    rim = poincare.exponential_map_at_zero(torch.full((2, 3), 1e9), curvature)
    assert (rim.norm(dim=-1) * math.sqrt(curvature) <= 1 - 1e-3 + 1e-6).all()
    assert poincare.distance(rim[0], -rim[1], curvature).isfinite()


def test_curvature_belongs_to_the_call_and_distances_are_exact_nearby() -> None:
    x, y = torch.tensor([0.1, 0.0]), torch.tensor([0.1, 1e-6])
    near = poincare.distance(x, y, 1.0).item()
    assert near == pytest.approx(2e-6 / (1 - 0.01), rel=1e-4)
    assert poincare.distance(x, y, 4.0).item() != near and poincare.distance(x, y, 1.0).item() == near
    z = x.clone().requires_grad_()
    assert torch.autograd.grad(poincare.distance(z, x, 1.0), z)[0].isfinite().all()


def test_gradients_and_bad_input() -> None:
    x = (POINTS * 0.5).clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda u: poincare.exponential_map_at_zero(u, 0.7), x)
    assert torch.autograd.gradcheck(lambda u: poincare.distance(u[:3], u[3:], 0.7), x)
    with pytest.raises(ValueError, match="curvature must be positive and finite, got 0"):
        poincare.project(POINTS, 0)
    with pytest.raises(ValueError, match="y_KD must have shape"):
        poincare.distance_matrix(POINTS, POINTS[:, :2], 1.0)


@pytest.mark.parametrize("curvature", [0.0, -1.0, math.inf, math.nan])
def test_every_function_refuses_a_curvature_that_is_none(curvature: float) -> None:
    one_point = (poincare.project, poincare.to_ball_interior, poincare.exponential_map_at_zero)
    for call in [lambda f=f: f(POINTS, curvature) for f in one_point] + [
        lambda f=f: f(POINTS, POINTS, curvature) for f in (poincare.mobius_add, poincare.distance)
    ]:
        with pytest.raises(ValueError, match=f"curvature must be positive and finite, got {curvature}"):
            call()


def test_points_must_be_vectors_of_one_shape_inside_the_ball() -> None:
    for function in (poincare.project, poincare.to_ball_interior, poincare.exponential_map_at_zero):
        with pytest.raises(ValueError, match=r"must have shape \(..., n\) with n >= 1, got \(\)"):
            function(torch.tensor(0.5), 1.0)
        with pytest.raises(ValueError, match=r"must be a floating-point tensor, got torch.int64"):
            function(torch.ones(3, dtype=torch.long), 1.0)
    inside = POINTS / 9
    for function in (poincare.mobius_add, poincare.distance):
        for other in (inside[:, :1], inside[0], inside[:, :2]):
            with pytest.raises(ValueError, match=r"y must have shape \(6, 4\), got"):
                function(inside, other, 1.0)
        with pytest.raises(ValueError, match=r"y must hold points inside the ball of radius 0.5, got a length of 1$"):
            function(inside, torch.eye(4, dtype=torch.float64).repeat(2, 1)[:6], 4.0)
    with pytest.raises(ValueError, match="x_BD must hold points inside the ball of radius 1, got a length of nan"):
        poincare.distance_matrix(inside * math.nan, inside, 1.0)
    assert poincare.distance(inside[:0], inside[:0], 1.0).shape == (0,)
