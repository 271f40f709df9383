"""Random numbers keyed by what they are for, and the batches that are drawn with them."""

import numpy as np
import pytest

from data_prep.order import Episodes, Order, Plan, Sequential, Shuffled
from data_prep.randomness import uniforms

LABELS = np.repeat(np.arange(6), [5, 40, 60, 400, 500, 1000])
IDS = np.arange(len(LABELS)) * 2 + 1


def plan(
    order: Order, rank: int = 0, world: int = 1, seed: int = 0, batch_size: int = 60, drop_last: bool = True
) -> Plan:
    return Plan(order, IDS, LABELS, batch_size, rank, world, seed, drop_last)


def test_uniforms_are_uniform_and_independent() -> None:
    numbers = uniforms(7, 3, np.arange(20_000), 1, 4)
    assert numbers.min() >= 0 and numbers.max() < 1
    for column in numbers.T:
        counts = np.histogram(column, 20, (0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi-square with 19 degrees of freedom, p = 0.0007
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.03
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.03


def test_uniforms_depend_on_every_part_of_the_key() -> None:
    base = uniforms(7, 3, np.arange(10), 1, 4)
    assert np.array_equal(base[5:], uniforms(7, 3, np.arange(5, 10), 1, 4))
    assert np.array_equal(base[:, :2], uniforms(7, 3, np.arange(10), 1, 2))
    for seed, epoch, view in ((8, 3, 1), (7, 4, 1), (7, 3, 2)):
        assert not np.isin(uniforms(seed, epoch, np.arange(10), view, 4), base).any()
    assert not np.isin(uniforms(4, 0, np.arange(10), 0, 4), uniforms(3, 1, np.arange(10), 0, 4)).any()
    assert uniforms(-1, 0, np.arange(2), 0, 1).shape == (2, 1)


def test_shuffled_epochs_hold_every_image_once() -> None:
    whole = plan(Shuffled(), drop_last=False)
    first, second = ([share.ids_B for share in whole.epoch(epoch)] for epoch in (0, 1))
    assert len(first) == whole.steps == 34 and len(first[-1]) == 2005 - 33 * 60
    assert np.array_equal(np.sort(np.concatenate(first)), IDS)
    assert not np.array_equal(first[0], second[0])
    assert len(plan(Shuffled()).epoch(0)) == plan(Shuffled()).steps == 33
    neighbours = (plan(Shuffled(), seed=1).epoch(0)[0].ids_B, plan(Shuffled(), seed=0).epoch(1)[0].ids_B)
    assert not np.array_equal(*neighbours)


@pytest.mark.parametrize("order", [Shuffled(), Episodes(4, 15, 30)])
@pytest.mark.parametrize("world", [2, 3])
def test_workers_share_the_batches_of_one(order: Order, world: int) -> None:
    alone = plan(order).epoch(5)
    together = [plan(order, rank, world).epoch(5) for rank in range(world)]
    for step, share in enumerate(alone):
        parts = [shares[step] for shares in together]
        assert len({len(part.ids_B) for part in parts}) == 1
        joined = np.concatenate([part.ids_B for part in parts])
        assert np.array_equal(joined, share.ids_B[: len(joined)]) and len(share.ids_B) - len(joined) < world
        assert np.array_equal(np.concatenate([part.positions_B for part in parts]), share.positions_B[: len(joined)])


@pytest.mark.parametrize("world", [1, 2, 7])
def test_sequential_shards_lose_and_repeat_nothing(world: int) -> None:
    shards = []
    for rank in range(world):
        sequential = plan(Sequential(), rank, world, batch_size=70)
        shares = sequential.epoch(0)
        assert len(shares) == sequential.steps
        shards.append(np.concatenate([share.ids_B for share in shares]))
        assert np.array_equal(shards[-1], IDS[rank::world])
    assert np.array_equal(np.sort(np.concatenate(shards)), IDS)


def test_episodes_hold_distinct_images_of_distinct_classes() -> None:
    order = Episodes(classes=3, images_per_class=13, episodes=200)
    labels_of = dict(zip(IDS.tolist(), LABELS.tolist(), strict=True))
    seen = np.zeros(6, int)
    for share in plan(order).epoch(1):
        labels = np.array([labels_of[index] for index in share.ids_B.tolist()])
        classes, counts = np.unique(labels, return_counts=True)
        assert len(set(share.ids_B.tolist())) == len(share.ids_B) and len(classes) == 3
        assert all(count == (5 if label == 0 else 13) for label, count in zip(classes, counts, strict=True))
        seen[classes] += 1
    assert np.all(np.abs(seen - 100) < 30)


def test_episodes_are_shuffled_within_and_every_image_is_as_likely() -> None:
    order = Episodes(classes=6, images_per_class=10, episodes=4000)
    shares = plan(order).epoch(0)
    places = np.concatenate([np.flatnonzero(share.ids_B < IDS[5]) for share in shares])  # class 0 has five images
    assert len(places) == 5 * 4000 and abs(places.mean() - 27) < 0.5 and places.max() == 54
    counts = np.bincount(np.concatenate([share.ids_B for share in shares]) // 2, minlength=len(IDS))
    small, large = counts[5:45], counts[1005:]  # drawn by random keys, and by rejection
    assert abs(small.mean() - 1000) < 1e-9 and np.abs(small - 1000).max() < 5 * np.sqrt(750)
    assert abs(large.mean() - 40) < 1e-9 and 30 < large.var() < 50


def test_fewer_classes_than_asked_for_are_all_taken() -> None:
    assert len(plan(Episodes(10, 2, 1)).epoch(0)[0].ids_B) == 12


@pytest.mark.parametrize(
    ("fault", "make"),
    [
        ("rank should lie in", lambda: plan(Shuffled(), rank=2, world=2)),
        ("at least 1, found 0", lambda: plan(Shuffled(), batch_size=0)),
        ("divide by 7", lambda: plan(Shuffled(), rank=0, world=7)),
        ("more than the 2005 images", lambda: plan(Shuffled(), batch_size=3000)),
        ("too few for 40 workers", lambda: plan(Episodes(3, 1, 1), world=40)),
        ("images_per_class should be at least 1, found 0", lambda: Episodes(3, 0, 1)),
    ],
)
def test_wrong_arguments_are_named(fault: str, make: object) -> None:
    with pytest.raises(ValueError, match=fault):
        make()  # type: ignore[operator]
