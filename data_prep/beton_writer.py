"""ffcv's writer without its worker processes, and one for images that are JPEG files already."""

import queue
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .beton import BetonInfo, check, check_columns, only_whole
from .ffcv_import import import_ffcv

import_ffcv()

import ffcv.writer  # noqa: E402
from ffcv.fields import IntField, NDArrayField, RGBImageField  # noqa: E402
from ffcv.memory_allocator import MemoryAllocator  # noqa: E402
from ffcv.types import (  # noqa: E402
    ALLOC_TABLE_TYPE,
    CURRENT_VERSION,
    TYPE_ID_HANDLER,
    FieldDescType,
    HeaderType,
    get_metadata_type,
)

_JPEG_MODE = 0
_SMALL_PAGE, _USUAL_PAGE, _LARGEST_PAGE = 1 << 21, 1 << 23, 1 << 30
_FEW_IMAGES = 100
_LONGEST_EDGE = (1 << 16) - 1


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


def write_jpeg_beton(
    path: Path,
    encoded: Iterable[tuple[bytes, int, int] | None],
    labels_N: NDArray[np.int64],
    extra_N: Mapping[str, NDArray[np.int64]] | None = None,
    news: Callable[[int], None] | None = None,
) -> BetonInfo:
    """Writes images that are encoded already, byte for byte; the file appears under its name only when it is whole.

    Images are taken from `encoded` one at a time, so a set may be larger than memory. The bytes of the file depend on
    the arguments alone.

    Args:
        encoded: (JPEG file, height, width) per image, in order; None leaves an image and its labels out.
        labels_N: stored in the field `label`.
        extra_N: further integer fields by name, at most 16 ASCII characters each.
        news: called with the number of images taken so far.

    Raises:
        ValueError: labels that cannot be stored, another number of images than of labels, no image at all, or an image
            that is larger than ffcv can store.
        OSError: the disk is full or not writable; nothing is left behind.
    """
    columns = {"label": labels_N, **(extra_N or {})}
    check_columns(columns, len(labels_N))
    with only_whole(path) as temporary, temporary.open("wb") as file:
        _write_jpegs(file, encoded, columns, news)
    return check(path)


def _write_jpegs(
    file: IO[bytes],
    encoded: Iterable[tuple[bytes, int, int] | None],
    columns: Mapping[str, NDArray[np.int64]],
    news: Callable[[int], None] | None,
) -> None:
    """Lays the file out as ffcv's own writer does, but for the size of pages, which grows with the largest image."""
    fields = {"image": RGBImageField(write_mode="jpg"), **{name: IntField() for name in columns}}
    samples = len(columns["label"])
    rows_N = np.zeros(samples, get_metadata_type(list(fields.values())))
    table_N = np.zeros(samples, ALLOC_TABLE_TYPE)
    descriptors = _descriptors(fields)
    page = _SMALL_PAGE if samples <= _FEW_IMAGES else _USUAL_PAGE
    position = _aligned(HeaderType.itemsize + descriptors.nbytes + rows_N.nbytes, page)
    taken = kept = 0
    for taken, image in enumerate(encoded, start=1):
        if taken > samples:
            raise ValueError(f"there are more images than their {samples:,} labels")
        if image is None:
            continue
        content, height, width = image
        size = len(content)
        if size > _LARGEST_PAGE or not 1 <= height <= _LONGEST_EDGE or not 1 <= width <= _LONGEST_EDGE:
            raise ValueError(
                f"image {taken - 1} cannot be stored: it has {width} x {height} pixels in {size:,} bytes, "
                f"allowed are 1 to {_LONGEST_EDGE:,} pixels a side and at most {_LARGEST_PAGE:,} bytes"
            )
        if size > page:  # what lies within a page lies within the larger ones too
            page = 1 << (size - 1).bit_length()
        if position % page + size > page:
            position = _aligned(position, page)
        file.seek(position)
        file.write(content)
        row = rows_N[kept : kept + 1]
        row["f0"]["mode"], row["f0"]["height"], row["f0"]["width"] = _JPEG_MODE, height, width
        row["f0"]["data_ptr"] = position
        for number, column_N in enumerate(columns.values(), start=1):
            row[f"f{number}"] = column_N[taken - 1]
        table_N[kept] = (kept, position, size)
        position += size
        kept += 1
        if news is not None:
            news(taken)
    if taken < samples or kept == 0:
        raise ValueError(f"there are {kept:,} images to write, for {samples:,} labels")
    end = _aligned(position, page)
    file.truncate(end)
    file.seek(end)
    file.write(table_N[:kept].tobytes())
    header = np.zeros((), HeaderType)
    header["version"], header["num_fields"], header["num_samples"] = CURRENT_VERSION, len(fields), kept
    header["page_size"], header["alloc_table_ptr"] = page, end
    file.seek(0)
    file.write(header.tobytes() + descriptors.tobytes() + rows_N[:kept].tobytes())


def _descriptors(fields: Mapping[str, Any]) -> NDArray[np.void]:
    type_ids = {handler: type_id for type_id, handler in TYPE_ID_HANDLER.items()}
    rows = np.zeros(len(fields), FieldDescType)
    for row, (name, field) in zip(rows, fields.items(), strict=True):
        row["type_id"] = type_ids[type(field)]
        row["name"][: len(name)] = np.frombuffer(name.encode("ascii"), np.uint8)
        row["arguments"][:] = field.to_binary()[0]
    return rows


def _aligned(position: int, page: int) -> int:
    return -(-position // page) * page
