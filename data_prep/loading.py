"""Batches for training and evaluation: (images from a .beton) -> augmented views, sharded, repeatable, resumable.

Shapes: B images of this worker, V views, C channels, H height, W width.
"""

import os
import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .augment import Drawn, Preset, augment, preset
from .augmentation.geometry import Geometry
from .catalogue import Constants, DatasetEntry
from .order import Episodes, Order, Plan, Sequential, Share, Shuffled
from .prepared import Split
from .randomness import uniforms
from .reading import Images, JpegBatch, Reading, Team, open_reader
from .room import Room

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
    """A batch whose views still have to be augmented, and the parameters for each of them."""

    views: list[Tensor]
    """Of one size, uint8 (B, H, W, C); all the same tensor where nothing is cut out of the images."""
    drawn: list[Drawn]
    labels_B: Tensor
    ids_B: Tensor


_PIXELS_AT_ONCE = 1 << 14, 1 << 18
"""Of a view that a thread works on at once: enough for calls to be cheap, few enough to stay in its cache."""
_MOST_THREADS = 16
_Windows = tuple[Geometry, NDArray[np.int64]]
"""A geometry and its parameters for every image (B, P)."""


class _View(NamedTuple):
    preset: Preset
    constants: Constants | None
    cut_size: tuple[int, int]
    """Height and width of what is cut out of an image, before the preset's stages."""


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
        threads: that share the images of a batch while they are decoded and augmented; None: as many as this worker
            has cores (those of the process, among the workers that LOCAL_WORLD_SIZE says share the machine), up to 16.

    Raises:
        ValueError: an argument out of range, a preset or labels that do not exist, or presets whose sizes do not fit
            the images or each other; a damaged file (BetonError).
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
        threads: int | None = None,
    ) -> None:
        self.num_classes = len(split.entry.classes_of(labels))
        self.num_samples = split.samples
        self.device = torch.device(device)
        if not views or any(count < 1 for _, count in views):
            raise ValueError(f"views should be a list of (preset, at least 1), found {views}")
        self._views = [_view(name, split.entry) for name, count in views for _ in range(count)]
        if threads is not None and threads < 1:
            raise ValueError(f"threads should be at least 1, found {threads}")
        self._threads = threads or _threads_of_this_worker()
        self._seed, self._room = seed, Room()
        self.image_shape = (split.entry.channels, *_common_size(self._views))
        pixels = self.image_shape[1] * self.image_shape[2]
        self._at_once = tuple(max(1, number // pixels) for number in _PIXELS_AT_ONCE)
        stored_shape = split.entry.image_shape if split.entry.storage == "raw" else None
        self._reader = open_reader(split.path, labels, stored_shape)
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
        self._room.clear()

    def _batches(self, epoch: int, start_step: int) -> Iterator[Batch]:
        shares = self._plan.epoch(epoch)[start_step:]

        def finish(number: int, images: Images, labels_B: NDArray[np.int64], team: Team) -> _Raw | Batch:
            return self._finished(epoch, shares[number], images, labels_B, team)

        reading = self._reader.batches([share.ids_B for share in shares], finish, self._threads)
        self._open.add(reading)
        try:
            for item in reading:
                yield item if isinstance(item, Batch) else self._augmented(self._moved(item))
        finally:
            reading.stop()

    def _finished(
        self, epoch: int, share: Share, images: Images, labels_B: NDArray[np.int64], team: Team
    ) -> _Raw | Batch:
        """Decodes every image once, cuts all views out of it and, on the CPU, augments them; all in slices."""
        windows, drawn = self._drawn(epoch, share, images)
        labels, ids_B = torch.from_numpy(labels_B), torch.from_numpy(np.ascontiguousarray(share.ids_B))
        if self.device.type != "cpu":
            return _Raw(self._cut(images, windows, team), drawn, labels, ids_B)
        result_BVCHW = self._room.empty((len(images), len(self._views), *self.image_shape))

        def augment_slice(part: slice) -> None:
            for view, pixels_BHWC in enumerate(self._cut_slice(images, windows, part)):
                found = self._views[view]
                rows = tuple(tuple(tensor[part] for tensor in stage) for stage in drawn[view])
                result_BVCHW[part, view] = augment(pixels_BHWC, found.preset, found.constants, rows)

        team.share(augment_slice, len(images), *self._at_once)
        return Batch(result_BVCHW, labels, ids_B)

    def _drawn(self, epoch: int, share: Share, images: Images) -> tuple[list[_Windows | None], list[Drawn]]:
        """For every view the windows to cut out (None: the whole image) and the parameters of its stages."""
        if isinstance(images, JpegBatch):
            heights_B, widths_B = images.heights_B, images.widths_B
        else:
            heights_B, widths_B = (np.full(len(images), side) for side in images.shape[1:3])
        windows: list[_Windows | None] = []
        drawn = []
        for number, view in enumerate(self._views):
            geometry = view.preset.geometry
            first = geometry.draws if geometry is not None else 0
            numbers_BK = uniforms(self._seed, epoch, share.positions_B, number, first + view.preset.draws)
            drawn.append(view.preset.draw(numbers_BK[:, first:], *view.cut_size))
            if geometry is None:
                windows.append(None)
            else:
                windows.append((geometry, geometry.parameters(numbers_BK[:, :first], heights_B, widths_B)))
        return windows, drawn

    def _cut(self, images: Images, windows: list[_Windows | None], team: Team) -> list[Tensor]:
        """The views of all images before their stages: uint8 (B, H, W, C) each."""
        if not isinstance(images, JpegBatch) and not any(windows):
            return [torch.from_numpy(images)] * len(windows)
        views = [self._empty(view, len(images)) for view in self._views]

        def cut(part: slice) -> None:
            for all_BHWC, some_BHWC in zip(views, self._cut_slice(images, windows, part), strict=True):
                all_BHWC[part] = some_BHWC

        team.share(cut, len(images), *self._at_once)
        return views

    def _cut_slice(self, images: Images, windows: list[_Windows | None], part: slice) -> list[Tensor]:
        """The views of some images before their stages: uint8 (b, H, W, C) each; each image is decoded once."""
        if not isinstance(images, JpegBatch) and not any(windows):
            return [torch.from_numpy(images[part])] * len(windows)
        views = [self._empty(view, part.stop - part.start) for view in self._views]
        arrays = [view_BHWC.numpy() for view_BHWC in views]
        for place in range(part.start, part.stop):
            image_HWC = images.decode(place) if isinstance(images, JpegBatch) else images[place]
            for array_BHWC, window in zip(arrays, windows, strict=True):
                cut_HWC = image_HWC if window is None else window[0].apply(image_HWC, window[1][place])
                array_BHWC[place - part.start] = cut_HWC
        return views

    def _empty(self, view: _View, count: int) -> Tensor:
        return torch.empty((count, *view.cut_size, self.image_shape[0]), dtype=torch.uint8)

    def _moved(self, raw: _Raw) -> _Raw:
        moved: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            if id(tensor) not in moved:
                pinned = tensor.pin_memory() if self.device.type == "cuda" else tensor
                moved[id(tensor)] = pinned.to(self.device, non_blocking=True)
            return moved[id(tensor)]

        drawn = [tuple(tuple(move(tensor) for tensor in stage) for stage in view) for view in raw.drawn]
        return _Raw([move(view) for view in raw.views], drawn, move(raw.labels_B), move(raw.ids_B))

    def _augmented(self, raw: _Raw) -> Batch:
        views = [
            augment(images_BHWC, view.preset, view.constants, drawn)
            for images_BHWC, view, drawn in zip(raw.views, self._views, raw.drawn, strict=True)
        ]
        images_BVCHW = views[0][:, None] if len(views) == 1 else torch.stack(views, 1)
        return Batch(images_BVCHW, raw.labels_B, raw.ids_B)


def _view(name: str, entry: DatasetEntry) -> _View:
    """A view by a preset's name.

    Raises:
        ValueError: no such preset, or it does not fit the size of the images.
    """
    found, constants = preset(name, entry)
    size = None if found.geometry is None else (found.geometry.size, found.geometry.size)
    if entry.storage == "jpeg":
        if size is None:
            raise ValueError(f"images of {entry.name} have many sizes, and preset {name} does not cut them to one")
        return _View(found, constants, size)
    return _View(found, constants, size or entry.image_shape[1:])


def _common_size(views: list[_View]) -> tuple[int, int]:
    """Height and width of all views after their stages.

    Raises:
        ValueError: they differ.
    """
    sizes = [view.preset.result_size(*view.cut_size) for view in views]
    if len(set(sizes)) > 1:
        found = " and ".join(f"{height} x {width}" for height, width in sorted(set(sizes)))
        raise ValueError(f"all views should have one size, found presets that give {found} pixels")
    return sizes[0]


def _threads_of_this_worker() -> int:
    cores = len(os.sched_getaffinity(0))
    local_workers = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return min(_MOST_THREADS, max(1, cores // max(1, int(local_workers) if local_workers.isdigit() else 1)))
