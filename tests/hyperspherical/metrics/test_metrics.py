import math

import numpy as np
import pytest
import torch

from hyperspherical import poincare
from hyperspherical.metrics import (
    accuracy,
    calibration_error,
    knn_probabilities,
    reliability_curve,
    retrieval_scores,
)
from tests.reference import metrics as reference


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_accuracy() -> None:
    scores = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.2, 0.3, 0.5]])
    labels = torch.tensor([1, 2, 0])
    assert [accuracy(scores, labels, k).item() for k in (1, 2, 3)] == pytest.approx([1 / 3, 2 / 3, 1])
    with pytest.raises(ValueError, match="k must be at most"):
        accuracy(scores, labels, 4)
    assert accuracy(scores.log() - torch.tensor([0.0, 0.0, math.inf]), labels).item() == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="scores must be numbers, got nan for 2 examples"):
        accuracy(scores.masked_fill(scores == 0.2, math.nan)[:2], labels[:2])


@pytest.mark.parametrize("binning", ["equal_mass", "equal_width"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_calibration_against_loops(binning: str, norm: str, bins: int) -> None:
    probabilities = (torch.randn(97, 5, generator=seeded(), dtype=torch.float64) * 2).softmax(-1)
    labels = torch.randint(5, (97,), generator=seeded(1))
    got = calibration_error(probabilities, labels, bins, binning, norm).item()
    assert got == pytest.approx(reference.calibration_error(probabilities, labels, bins, binning, norm))
    curve = reliability_curve(probabilities, labels, bins, binning)
    assert curve.counts.sum() == 97 and curve.confidence.shape == (bins,)


def test_calibration_of_the_certain() -> None:
    sure = torch.eye(3)
    assert calibration_error(sure, torch.arange(3), binning="equal_width").item() == 0
    assert calibration_error(sure, torch.tensor([1, 2, 0])).item() == 1
    with pytest.raises(ValueError, match="got values from 0 to 5: pass the softmax, not logits"):
        calibration_error(sure * 5, torch.arange(3))
    with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\], got values from nan to nan"):
        calibration_error(sure * math.nan, torch.arange(3))


@pytest.mark.parametrize("similarity", ["cosine", "inner", "euclidean"])
def test_retrieval_against_loops(similarity: str) -> None:
    labels = torch.cat([torch.randint(6, (39,), generator=seeded()), torch.tensor([99])])  # 99 has no relatives
    embeddings = torch.randn(40, 4, generator=seeded(1), dtype=torch.float64)
    embeddings[3] = embeddings[7]  # a duplicate must not be mistaken for the query itself
    labels[3] = labels[7]  # their order among a third example's neighbours is arbitrary, so it must not matter
    got = retrieval_scores(embeddings, labels, similarity, chunk=7)
    want = reference.retrieval(embeddings, labels, similarity)
    assert got[:3] == pytest.approx(want)
    assert got.nearest_is_right.shape == (40,) and not got.nearest_is_right[-1]
    whole = retrieval_scores(embeddings, labels, similarity)
    assert whole[:3] == pytest.approx(got[:3]) and torch.equal(whole.nearest_is_right, got.nearest_is_right)


def test_retrieval_against_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    embeddings = torch.randn(60, 5, generator=seeded(2))
    labels = torch.arange(60) % 7
    names = ("mean_average_precision_at_r", "precision_at_1", "r_precision")
    knn = CustomKNN(LpDistance(normalize_embeddings=False))
    oracle = AccuracyCalculator(include=names, k="max_bin_count", knn_func=knn).get_accuracy(embeddings, labels)
    got = retrieval_scores(embeddings, labels, "euclidean")
    assert got[:3] == pytest.approx([oracle[name] for name in names], rel=1e-5)


def test_retrieval_in_the_ball_and_bad_input() -> None:
    x = poincare.exponential_map_at_zero(torch.randn(10, 3, generator=seeded()), 1.0)
    scores = retrieval_scores(x, torch.arange(10) % 2, lambda q, k: -poincare.distance_matrix(q, k, 1.0))
    assert 0 <= scores.map_at_r <= scores.r_precision <= 1
    with pytest.raises(ValueError, match="at least one class with two examples"):
        retrieval_scores(x, torch.arange(10))
    with pytest.raises(ValueError, match="similarity must be one of"):
        retrieval_scores(x, torch.arange(10) % 2, "manhattan")
    with pytest.raises(ValueError, match=r"similarity must be one of 'cosine', .* or a function, got None"):
        retrieval_scores(x, torch.arange(10) % 2, None)
    with pytest.raises(ValueError, match=r"the result of similarity must have shape \(10, 10\), got \(10, 2\)"):
        retrieval_scores(x, torch.arange(10) % 2, lambda q, k: (q @ k.T)[:, :2])
    x[3] = math.nan
    with pytest.raises(ValueError, match="embeddings must be finite, got 1 of 10 rows that are not"):
        retrieval_scores(x, torch.arange(10) % 2)


def test_knn_against_loops() -> None:
    bank, queries = torch.randn(30, 4, generator=seeded()), torch.randn(9, 4, generator=seeded(1))
    labels = torch.randint(5, (30,), generator=seeded(2))
    for k in (1, 7, 200):
        got = knn_probabilities(bank, labels, queries, 5, k, chunk=4)
        assert torch.allclose(got.sum(-1), torch.ones(9))
        for q, row in zip(queries, got, strict=True):
            cosines = [float(q @ b / (q.norm() * b.norm())) for b in bank]
            votes = np.zeros(5)
            for i in np.argsort(cosines)[::-1][:k]:
                votes[labels[i]] += math.exp(cosines[i] / 0.1)
            np.testing.assert_allclose(row.numpy(), votes / votes.sum(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"bank must have shape \(M, D\), got \(0, 4\)"):
        knn_probabilities(bank[:0], labels[:0], queries, 5)
    with pytest.raises(ValueError, match="temperature"):
        knn_probabilities(bank, labels, queries, 5, temperature=0.0)
    with pytest.raises(ValueError, match="queries must be finite, got 9 of 9 rows that are not"):
        knn_probabilities(bank, labels, queries / 0, 5)
