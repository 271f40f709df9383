"""ffcv's writer without its worker processes."""

import queue
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .ffcv_import import import_ffcv

import_ffcv()

import ffcv.writer  # noqa: E402
from ffcv.fields import IntField, NDArrayField, RGBImageField  # noqa: E402
from ffcv.memory_allocator import MemoryAllocator  # noqa: E402


class InProcessWriter(ffcv.writer.DatasetWriter):
    """Runs ffcv's worker function in the calling process.

    ffcv waits for ever when a worker dies of an exception or a full disk, and a killed parent leaves its workers and a
    segment of shared memory behind. For uncompressed images a worker only copies bytes; without one, errors simply
    surface, nothing can be left running, and the order of the pages, hence the file, is always the same.
    """

    def prepare(self) -> None:
        """Writes the head of the file; the rows of metadata are kept in plain memory, which nobody shares."""
        shared_memory = ffcv.writer.shared_memory
        ffcv.writer.shared_memory = SimpleNamespace(SharedMemory=_PlainMemory)
        try:
            super().prepare()
        finally:
            ffcv.writer.shared_memory = shared_memory

    def _write_common(
        self,
        num_samples: int,
        queue_content: Iterable[Any],
        work_fn: Callable[..., None],
        extra_worker_args: tuple[Any, ...],
    ) -> None:
        self.num_samples = num_samples
        self.prepare()
        todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for item in (*queue_content, None):
            todo.put(item)
        allocations: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        allocator = _Pages(self.fname, self.data_region_start, self.page_size)
        done = _Counter()
        work_fn(
            todo, self.metadata_sm, self.metadata_type, self.fields, allocator, done, allocations, *extra_worker_args
        )
        self.finalize(allocations.get())


class _Pages(MemoryAllocator):
    """Writes the pages of images, and closes its file after an error too."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush_page()
        finally:
            self.fp.close()


class _PlainMemory:
    """Stands in for the shared memory that ffcv's workers write metadata to."""

    def __init__(self, create: bool, size: int) -> None:
        self.buf = memoryview(bytearray(size))


class _Counter:
    """Stands in for the shared counter by which ffcv's workers report progress."""

    value = 0

    def get_lock(self) -> "_Counter":
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def image_field(shape: tuple[int, ...]) -> Any:
    """The field for images of shape (H, W, C): ffcv's image field takes colour only, grey ones are stored as arrays."""
    return RGBImageField(write_mode="raw") if shape[-1] == 3 else NDArrayField(np.dtype("uint8"), shape)


def integer_field() -> Any:
    """The field for labels (int64)."""
    return IntField()
