import math

import pytest
import torch

from hyperspherical.losses import dcl_loss, in_batch_loss, info_nce, loss_average, queue_info_nce, simclr_loss
from hyperspherical.similarity import feature_average_similarity
from tests.reference import contrastive as reference


def views(batch: int = 4, count: int = 3, dim: int = 5, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, count, dim, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_against_loops(count: int, temperature: float) -> None:
    q, k, queue = views(4, count), views(4, count, seed=1), views(7, 1, seed=2)[:, 0]
    assert simclr_loss(q, temperature).item() == pytest.approx(reference.simclr(q, temperature))
    assert dcl_loss(q, temperature).item() == pytest.approx(reference.simclr(q, temperature, decoupled=True))
    assert loss_average(q, k, temperature).item() == pytest.approx(reference.loss_average(q, k, temperature))
    want = reference.loss_average(q, k, temperature, queue)
    assert loss_average(q, k, temperature, queue).item() == pytest.approx(want)


def test_simclr_against_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import NTXentLoss

    for count in (2, 3):
        z = views(6, count)
        oracle = NTXentLoss(temperature=0.2)(z.flatten(0, 1), torch.arange(6).repeat_interleave(count))
        assert simclr_loss(z, 0.2).item() == pytest.approx(oracle.item(), rel=1e-6)


def test_the_forms_meet_for_one_view() -> None:
    q, k, queue = views(4, 1), views(4, 1, seed=1), views(7, 1, seed=2)[:, 0]
    want = info_nce(q[:, 0], k[:, 0], 0.2).item()
    assert loss_average(q, k, 0.2).item() == pytest.approx(want)
    assert loss_average(q, k, 0.2, mean="probabilities").item() == pytest.approx(want)
    assert in_batch_loss(feature_average_similarity(q, k) / 0.2).item() == pytest.approx(want)
    logits = torch.nn.functional.normalize(q[:, 0], dim=-1) @ torch.nn.functional.normalize(queue, dim=-1).T / 0.2
    positive = torch.nn.functional.cosine_similarity(q[:, 0], k[:, 0]) / 0.2
    assert queue_info_nce(positive, logits).item() == pytest.approx(loss_average(q, k, 0.2, queue).item())


def test_means_of_loss_average_are_ordered() -> None:
    q, k = views(), views(seed=1)
    assert loss_average(q, k, 0.2, mean="probabilities") < loss_average(q, k, 0.2)


def test_gathered_keys_and_gradients() -> None:
    q, k = views().requires_grad_(), torch.cat([views(seed=2), views(seed=1)]).requires_grad_()
    whole = info_nce(torch.cat([views(seed=2)[:, 0], q[:, 0]]), k[:, 0], 0.3)
    parts = info_nce(views(seed=2)[:, 0], k[:, 0], 0.3), info_nce(q[:, 0], k[:, 0], 0.3, first_row=4)
    assert whole.item() == pytest.approx((sum(parts) / 2).item())
    for function in (
        lambda q, k: info_nce(q[:, 0], k[:, 0], 0.3, 4),
        lambda q, k: simclr_loss(q, 0.3),
        lambda q, k: dcl_loss(q, 0.3),
        lambda q, k: loss_average(q, k, 0.3, first_row=4),
        lambda q, k: loss_average(q, k, 0.3, first_row=4, mean="probabilities"),
    ):
        assert torch.autograd.gradcheck(function, (q, k))


@pytest.mark.parametrize("count", [256, 4096, 65536])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.2, 0.1])
def test_table_2_of_the_dsf_paper(count: int, temperature: float) -> None:
    """The least loss of a cosine similarity: positives at 1, all K negatives at -1 (Proposition 1).

    The paper cuts digits off where others round: it prints 3.573 for 3.57363 and 0.011 for 0.01156.
    """
    published = {
        1.0: {256: 3.573, 4096: 6.319, 65536: 9.090},
        0.5: {256: 1.738, 4096: 4.331, 65536: 7.091},
        0.2: {256: 0.011, 4096: 0.170, 65536: 1.380},
        0.1: {256: 0.000, 4096: 0.000, 65536: 0.0001},
    }
    key = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    positive, negatives = torch.ones(1, dtype=torch.float64), -torch.ones(1, count, dtype=torch.float64)
    value = queue_info_nce(positive / temperature, negatives / temperature).item()
    assert value == pytest.approx(math.log1p(count * math.exp(-2 / temperature)))
    units = 10_000 if (temperature, count) == (0.1, 65536) else 1000
    assert math.floor(value * units) / units == published[temperature][count]
    assert loss_average(key[None], key[None], temperature, -key.expand(count, 2)).item() == pytest.approx(value)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="at least 2 views"):
        simclr_loss(views(4, 1))
    with pytest.raises(ValueError, match="at least 2 images"):
        dcl_loss(views(1, 2))
    with pytest.raises(ValueError, match="temperature"):
        info_nce(torch.ones(2, 3), torch.ones(2, 3), 0.0)
    with pytest.raises(ValueError, match="first_row must leave room"):
        info_nce(torch.ones(2, 3), torch.ones(2, 3), 0.1, first_row=1)
    with pytest.raises(ValueError, match=r"logits_positive_B must have shape \(2,\), got \(3,\)"):
        queue_info_nce(torch.ones(3), torch.ones(2, 4))
    with pytest.raises(ValueError, match="keys_NVD"):
        loss_average(views(), views(dim=6))
    with pytest.raises(ValueError, match=r"negatives_KD must have shape \(K, 5\), got \(7, 1, 5\)"):
        loss_average(views(), views(), negatives_KD=views(7, 1))
    with pytest.raises(ValueError, match="negatives_KD must be a floating-point tensor"):
        loss_average(views(), views(), negatives_KD=torch.ones(7, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="mean must be one of 'losses', 'probabilities', got 'views'"):
        loss_average(views(), views(), mean="views")
    with pytest.raises(ValueError, match=r"logits_BN must have shape \(B, N\), got \(4,\)"):
        in_batch_loss(torch.ones(4))
    with pytest.raises(ValueError, match=r"keys must have shape \(K, 3\), got \(2, 1\)"):
        info_nce(torch.ones(2, 3), torch.ones(2, 1))


def test_mixed_precision_takes_the_queries_type() -> None:
    q, k, queue = views(), views(seed=1), views(7, 1, seed=2)[:, 0]
    want = loss_average(q, k, 0.3, queue)
    mixed = loss_average(q.float(), k, 0.3, queue)
    assert mixed.dtype == torch.float32 and mixed.item() == pytest.approx(want.item(), rel=1e-5)
