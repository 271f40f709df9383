"""Batches for training and evaluation: (uint8 images from a .beton) -> augmented views, sharded, repeatable, resumable.

Shapes: B images of this worker, V views, C channels, H height, W width.
"""

import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .augment import Drawn, augment, preset
from .order import Episodes, Order, Plan, Sequential, Share, Shuffled
from .prepared import Split
from .randomness import uniforms
from .reading import Reading, open_reader

__all__ = ["Batch", "Episodes", "Loader", "Order", "Sequential", "Shuffled"]


class Batch(NamedTuple):
    """One worker's part of a batch, on the loader's device."""

    images_BVCHW: Tensor
    """float32."""
    labels_B: Tensor
    """int64."""
    ids_B: Tensor
    """int64: which images of the split's .beton file these are."""


class _Raw(NamedTuple):
    """A batch whose images still have to be augmented, and the parameters for each view."""

    images_BHWC: Tensor
    drawn: list[Drawn]
    labels_B: Tensor
    ids_B: Tensor


class Loader:
    """Reads a split epoch by epoch; what an epoch holds depends on (seed, epoch) alone.

    Args:
        split: what `open_split` returns.
        batch_size: images per batch over all workers; for `Episodes` the size follows from the order.
        order: Shuffled(), Sequential() or Episodes(...).
        views: (preset, how many of it), in the order of the views; each view draws its own parameters.
        rank, world: this worker and how many there are. Training batches are cut into equal parts, so that one worker
            or several see the same batches; a sequential pass gives worker r the images r, r + world, ...
        drop_last: leave out a last shuffled batch that is not full. Sequential passes never lose an image.
        device: where batches are put; other than on the CPU, augmentation runs there too.
        labels: "label", or one of the data set's extra labels.

    Raises:
        ValueError: an argument out of range, or a preset or labels that do not exist; a damaged file (BetonError).
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        order: Order,
        views: Sequence[tuple[str, int]] = (("plain", 1),),
        rank: int = 0,
        world: int = 1,
        seed: int = 0,
        drop_last: bool = True,
        device: torch.device | str = "cpu",
        labels: str = "label",
    ) -> None:
        self.num_classes = len(split.entry.classes_of(labels))
        self.image_shape = split.entry.image_shape
        self.num_samples = split.samples
        self.device = torch.device(device)
        if not views or any(count < 1 for _, count in views):
            raise ValueError(f"views should be a list of (preset, at least 1), found {views}")
        self._views = [preset(name, split.entry) for name, count in views for _ in range(count)]
        self._seed = seed
        self._reader = open_reader(split.path, labels, self.image_shape)
        ids_N = split.indices if split.indices is not None else np.arange(self._reader.samples)
        if len(ids_N) != split.samples or ids_N.min() < 0 or ids_N.max() >= self._reader.samples:
            raise ValueError(f"the indices of split {split.name} do not fit {split.path}")
        self._plan = Plan(order, ids_N, self._reader.labels_N[ids_N], batch_size, rank, world, seed, drop_last)
        self._open: weakref.WeakSet[Reading[_Raw | Batch]] = weakref.WeakSet()

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch for this worker; the same for all workers unless the order is sequential."""
        return self._plan.steps

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from `start_step` on; it may be left early.

        Raises:
            ValueError: the epoch or step is negative or the step beyond the end; BetonError: the file was cut short.
        """
        if epoch < 0 or not 0 <= start_step <= self.steps_per_epoch:
            raise ValueError(
                f"epoch should be at least 0 and start_step lie in 0..{self.steps_per_epoch}, "
                f"found {epoch} and {start_step}"
            )
        return self._batches(epoch, start_step)

    def close(self) -> None:
        """Ends all epochs that are still being read."""
        for reading in list(self._open):
            reading.stop()

    def _batches(self, epoch: int, start_step: int) -> Iterator[Batch]:
        shares = self._plan.epoch(epoch)[start_step:]

        def finish(number: int, images_BHWC: NDArray[np.uint8], labels_B: NDArray[np.int64]) -> _Raw | Batch:
            raw = self._drawn(epoch, shares[number], images_BHWC, labels_B)
            return raw if self.device.type != "cpu" else self._augmented(raw)

        reading = self._reader.batches([share.ids_B for share in shares], finish)
        self._open.add(reading)
        try:
            for item in reading:
                yield item if isinstance(item, Batch) else self._augmented(self._moved(item))
        finally:
            reading.stop()

    def _drawn(self, epoch: int, share: Share, images_BHWC: NDArray[np.uint8], labels_B: NDArray[np.int64]) -> _Raw:
        height, width = images_BHWC.shape[1:3]
        drawn = [
            found.draw(uniforms(self._seed, epoch, share.positions_B, view, found.draws), height, width)
            for view, (found, _) in enumerate(self._views)
        ]
        ids_B = torch.from_numpy(np.ascontiguousarray(share.ids_B))
        return _Raw(torch.from_numpy(images_BHWC), drawn, torch.from_numpy(labels_B), ids_B)

    def _moved(self, raw: _Raw) -> _Raw:
        def move(tensor: Tensor) -> Tensor:
            if self.device.type == "cuda":
                tensor = tensor.pin_memory()
            return tensor.to(self.device, non_blocking=True)

        drawn = [tuple(tuple(move(tensor) for tensor in stage) for stage in view) for view in raw.drawn]
        return _Raw(move(raw.images_BHWC), drawn, move(raw.labels_B), move(raw.ids_B))

    def _augmented(self, raw: _Raw) -> Batch:
        views = [
            augment(raw.images_BHWC, found, constants, drawn)
            for (found, constants), drawn in zip(self._views, raw.drawn, strict=True)
        ]
        images_BVCHW = views[0][:, None] if len(views) == 1 else torch.stack(views, 1)
        return Batch(images_BVCHW, raw.labels_B, raw.ids_B)
