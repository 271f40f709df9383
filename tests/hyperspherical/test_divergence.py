"""Embeddings that are not finite give a loss that is not finite, so that training can say where it diverged."""

import pytest
import torch

from hyperspherical import losses


@pytest.mark.parametrize("dim", [3, 16])
@pytest.mark.parametrize(
    "loss_class",
    [
        losses.SoftmaxLoss,
        losses.CosineSoftmaxLoss,
        losses.ArcFaceLoss,
        losses.HyperbolicSoftmaxLoss,
        losses.VonMisesFisherLoss,
    ],
)
def test_nan_embeddings_give_a_nan_loss(loss_class: type, dim: int) -> None:
    embeddings = torch.randn(6, dim)
    embeddings[2] = torch.nan
    loss = loss_class(4, dim)(embeddings, torch.arange(6) % 4)
    assert not torch.isfinite(loss)
