"""Every objective compiles as one graph, and then says the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hyperspherical import losses
from hyperspherical.similarity import DivergenceSimilarity

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(6) % 5
SAME = torch.tensor([True, False, True])
VIEWS = X.view(2, 3, 4)


@pytest.mark.parametrize(
    ("objective", "arguments"),
    [
        (losses.SoftmaxLoss(5, 4), (X, LABELS)),
        (losses.CosineSoftmaxLoss(5, 4), (X, LABELS)),
        (losses.ArcFaceLoss(5, 4), (X, LABELS)),
        (losses.HyperbolicSoftmaxLoss(5, 4), (X, LABELS)),
        (losses.VonMisesFisherLoss(5, 4), (X, LABELS)),
        (losses.AngularMarginContrastiveLoss(), (X, SAME)),
        (losses.EuclideanContrastiveLoss(), (X, SAME)),
        (DivergenceSimilarity(), (VIEWS, VIEWS.flip(0))),
    ],
    ids=lambda value: type(value).__name__ if callable(value) else "",
)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler's own doing
@pytest.mark.parametrize("autocast", [False, True])
def test_compiled_in_one_graph(objective: Callable[..., Tensor], arguments: tuple[Tensor, ...], autocast: bool) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda *given: objective(*given), fullgraph=True, backend="aot_eager")
    results = []
    for function in (objective, compiled):
        x = arguments[0].clone().requires_grad_()
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            value = function(x, *arguments[1:])
        results.append((value, torch.autograd.grad(value.sum(), x)[0]))
    torch.testing.assert_close(results[1][0], results[0][0])
    if not autocast:  # the compiler runs all of a backward pass under the autocast around the call
        torch.testing.assert_close(results[1][1], results[0][1])
