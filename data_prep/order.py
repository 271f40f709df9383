"""Which images come in which batch: drawn for the whole job from (seed, epoch), then shared among the workers."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .randomness import generator

_PERMUTATION, _EPISODES = 0, 1


@dataclass(frozen=True)
class Shuffled:
    """Every image once per epoch, in a new order each time."""


@dataclass(frozen=True)
class Sequential:
    """Every image once, in the split's order; the last batch may be short. For evaluation."""


@dataclass(frozen=True)
class Episodes:
    """Every batch holds some classes and some images of each, both drawn without replacement, in random order.

    Raises:
        ValueError: a number below 1.
    """

    classes: int = 10
    """Per batch; all of them if the data set has fewer."""
    images_per_class: int = 13
    """Per batch; all of them if the class has fewer."""
    episodes: int = 250
    """Batches per epoch."""

    def __post_init__(self) -> None:
        for name in ("classes", "images_per_class", "episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"Episodes: {name} should be at least 1, found {getattr(self, name)}")


Order = Shuffled | Sequential | Episodes


class Share(NamedTuple):
    """One worker's part of one batch."""

    ids_B: NDArray[np.int64]
    """Indices into the .beton file."""
    positions_B: NDArray[np.int64]
    """Places in the epoch's order over all workers: what augmentation draws are keyed by."""


class Plan:
    """The batches of one split for one worker.

    Args:
        ids_N: the split's indices into its .beton file; labels_N: their labels.
        batch_size: images per batch over all workers; episodes have the size that follows from their order.
        drop_last: leave out a last shuffled batch that is not full.

    Raises:
        ValueError: a size or rank out of range, or too few images for one batch.
    """

    def __init__(
        self,
        order: Order,
        ids_N: NDArray[np.int64],
        labels_N: NDArray[np.int64],
        batch_size: int,
        rank: int,
        world: int,
        seed: int,
        drop_last: bool,
    ) -> None:
        if world < 1 or not 0 <= rank < world:
            raise ValueError(f"rank should lie in 0..world-1, found rank {rank} of world {world}")
        if batch_size < 1:
            raise ValueError(f"batch_size should be at least 1, found {batch_size}")
        if isinstance(order, Shuffled) and batch_size % world:
            raise ValueError(f"batch_size counts all workers and should divide by {world} of them, found {batch_size}")
        self.order, self.ids_N, self.batch_size, self.drop_last = order, ids_N, batch_size, drop_last
        self.rank, self.world, self.seed = rank, world, seed
        if isinstance(order, Shuffled) and drop_last and len(ids_N) < batch_size:
            raise ValueError(f"batch_size {batch_size} is more than the {len(ids_N)} images of the split")
        if isinstance(order, Episodes):
            self.members = [np.flatnonzero(labels_N == label) for label in np.unique(labels_N)]
            sizes = sorted(min(order.images_per_class, len(members)) for members in self.members)
            if sum(sizes[: order.classes]) < world:
                raise ValueError(
                    f"an episode can have {sum(sizes[: order.classes])} images, too few for {world} workers"
                )

    @property
    def steps(self) -> int:
        """Batches per epoch for this worker."""
        if isinstance(self.order, Episodes):
            return self.order.episodes
        if isinstance(self.order, Sequential):
            return -(-len(range(self.rank, len(self.ids_N), self.world)) // self._local_size)
        whole, rest = divmod(len(self.ids_N), self.batch_size)
        return whole if self.drop_last or rest == 0 else whole + 1

    def epoch(self, epoch: int) -> list[Share]:
        """This worker's batches of an epoch."""
        if isinstance(self.order, Sequential):
            mine_N = np.arange(self.rank, len(self.ids_N), self.world, dtype=np.int64)
            local = self._local_size
            return [self._share(mine_N[start : start + local]) for start in range(0, len(mine_N), local)]
        if isinstance(self.order, Episodes):
            return self._episodes(epoch, self.order)
        order_N = generator(self.seed, epoch, _PERMUTATION).permutation(len(self.ids_N))
        shares = []
        for step in range(self.steps):
            start = step * self.batch_size
            batch_B = order_N[start : start + self.batch_size]
            first, last = (len(batch_B) * worker // self.world for worker in (self.rank, self.rank + 1))
            shares.append(Share(self.ids_N[batch_B[first:last]], np.arange(start + first, start + last)))
        return shares

    @property
    def _local_size(self) -> int:
        """Images in a batch of a sequential pass, whose shards need not be of equal size."""
        return max(1, self.batch_size // self.world)

    def _share(self, positions_B: NDArray[np.int64]) -> Share:
        return Share(self.ids_N[positions_B], positions_B)

    def _episodes(self, epoch: int, order: Episodes) -> list[Share]:
        rng = generator(self.seed, epoch, _EPISODES)
        classes = min(order.classes, len(self.members))
        images = order.images_per_class
        chosen_EN = _distinct_per_row(rng, np.full(order.episodes, len(self.members)), classes)
        sizes_C = np.array([len(members) for members in self.members])
        within_EKx = _distinct_per_row(rng, sizes_C[chosen_EN.ravel()], images)
        starts_C = np.concatenate([[0], np.cumsum(sizes_C)[:-1]])
        members_N = np.concatenate(self.members)
        places = np.where(
            within_EKx >= 0, members_N[np.maximum(within_EKx, 0) + starts_C[chosen_EN.ravel()][:, None]], -1
        )
        places_EB = places.reshape(order.episodes, classes * images)
        # Missing images of small classes get the largest keys, so that they end up behind all others.
        keys_EB = np.where(places_EB >= 0, rng.random(places_EB.shape), 2.0)
        shuffled_EB = np.take_along_axis(places_EB, keys_EB.argsort(axis=1, kind="stable"), axis=1)
        shares = []
        for episode, row_B in enumerate(shuffled_EB):
            whole_B = row_B[row_B >= 0]
            local = len(whole_B) // self.world
            first = self.rank * local
            positions_B = episode * len(row_B) + np.arange(first, first + local)
            shares.append(Share(self.ids_N[whole_B[first : first + local]], positions_B))
        return shares


def _distinct_per_row(rng: np.random.Generator, sizes_R: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each row `count` distinct numbers below its size, all choices equally likely; -1 where the size is too small.

    Rows of large sizes are drawn with replacement and drawn again while they hold a number twice; others are sorted by
    random keys.
    """
    result_RK = np.full((len(sizes_R), count), -1, dtype=np.int64)
    large_R = sizes_R >= count * count
    todo = np.flatnonzero(large_R)
    while len(todo):
        drawn = rng.integers(0, sizes_R[todo, None], size=(len(todo), count))
        result_RK[todo] = drawn
        drawn.sort(axis=1)
        todo = todo[(drawn[:, 1:] == drawn[:, :-1]).any(axis=1)]
    small = np.flatnonzero(~large_R)
    if len(small):
        width = int(sizes_R[small].max())
        keys = rng.random((len(small), width))
        keys[np.arange(width)[None, :] >= sizes_R[small, None]] = 2.0
        kept = min(count, width)
        drawn = keys.argsort(axis=1, kind="stable")[:, :kept]
        result_RK[small, :kept] = np.where(np.arange(kept)[None, :] < sizes_R[small, None], drawn, -1)
    return result_RK
