"""FFCV's .beton files: written so that a file under its final name is whole, and checked so that a bad one is named.

Layout of a .beton: header, one descriptor per field, one metadata row per image, pages of image bytes, and last a table
of allocations whose address the header gets when all else is written. ffcv itself reads half-written and damaged files
without complaint, or dies; every file is checked here first.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .catalogue import CATALOGUE

_VERSION = 2
_SMALLEST_PAGE = 1 << 21
_LONGEST_NAME = 16
_HEADER = np.dtype(
    [
        ("version", "<u2"),
        ("num_fields", "<u2"),
        ("page_size", "<u4"),
        ("num_samples", "<u8"),
        ("alloc_table_ptr", "<u8"),
    ]
)
_FIELD = np.dtype([("type_id", "u1"), ("name", "u1", 16), ("arguments", "u1", 1024)])
_ALLOCATION = np.dtype([("sample_id", "<u8"), ("ptr", "<u8"), ("size", "<u8")])
_FIELD_TYPES = {0: "float", 1: "int", 2: "rgb image", 3: "bytes", 4: "array", 5: "json", 6: "tensor"}


class BetonError(ValueError):
    """A .beton file, or a prepared data set, that cannot be used; the message says which, why and how to rebuild it."""

    def __init__(self, path: Path, fault: str, rebuild: str) -> None:
        super().__init__(f"{path} {fault}; rebuild it with: {rebuild}")
        self.path, self.fault, self.rebuild = path, fault, rebuild

    def __reduce__(self) -> tuple[type["BetonError"], tuple[Path, str, str]]:
        return type(self), (self.path, self.fault, self.rebuild)


@dataclass(frozen=True)
class BetonInfo:
    """What the head of a .beton file says."""

    path: Path
    samples: int
    fields: dict[str, str]
    """Name of each field -> its type in words."""
    page_size: int
    bytes: int


def rebuild_command(path: Path) -> str:
    """The command that writes the data set again which `path` belongs to."""
    folder = path if path.suffix == "" else path.parent
    source = "" if folder.name in CATALOGUE else " --source DIR"
    return f"hyperspherical prepare {folder.name} --root {folder.parent}{source}"


def write_beton(
    path: Path,
    images_NHWC: NDArray[np.uint8],
    labels_N: NDArray[np.int64],
    extra_N: Mapping[str, NDArray[np.int64]] | None = None,
    progress: Callable[[int], None] | None = None,
) -> BetonInfo:
    """Writes images and labels; the file appears under its name only when it is whole, checked and on the disk.

    The bytes depend on the arguments alone, so the same images give the same checksum.

    Args:
        images_NHWC: (N, H, W, 1) or (N, H, W, 3) uint8, stored uncompressed in the field `image`.
        labels_N: stored in the field `label`.
        extra_N: further integer fields by name, at most 16 ASCII characters each.
        progress: called with the number of images written so far.

    Raises:
        ValueError: shapes, types or names that cannot be stored.
        OSError: the disk is full or not writable; nothing is left behind.
    """
    columns = {"label": labels_N, **(extra_N or {})}
    if images_NHWC.dtype != np.uint8 or images_NHWC.ndim != 4 or images_NHWC.shape[-1] not in (1, 3):
        raise ValueError(
            f"images should be uint8 of shape (N, H, W, 1 or 3), found {images_NHWC.dtype} of shape {images_NHWC.shape}"
        )
    if images_NHWC.size == 0:
        raise ValueError(f"there are no images to write: their shape is {images_NHWC.shape}")
    check_columns(columns, len(images_NHWC))
    with only_whole(path) as temporary:
        _write(temporary, images_NHWC, columns, progress)
    return check(path)


@contextmanager
def only_whole(path: Path) -> Iterator[Path]:
    """Gives a temporary path to write to; it becomes `path` when what was written is whole, checked and on the disk."""
    remove_leftovers(path.parent)
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}")
    try:
        yield temporary
        check(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check(path: Path) -> BetonInfo:
    """Whether the structure of a .beton file is whole, in a few milliseconds; changed pixels need `verify_digest`.

    Raises:
        BetonError: missing, empty, truncated, half-written or not a .beton file.
    """
    rebuild = rebuild_command(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER.itemsize)
            if len(head) < _HEADER.itemsize:
                raise BetonError(path, f"holds only {size} bytes", rebuild)
            header = np.frombuffer(head, _HEADER)[0]
            fields, samples = int(header["num_fields"]), int(header["num_samples"])
            page_size, table = int(header["page_size"]), int(header["alloc_table_ptr"])
            if int(header["version"]) != _VERSION or not 1 <= fields <= 64:
                raise BetonError(path, "is not a .beton file of version 2", rebuild)
            if page_size < _SMALLEST_PAGE or page_size & (page_size - 1):
                raise BetonError(path, f"has a page size of {page_size}, which is no power of two from 2 MiB", rebuild)
            if samples < 1:
                raise BetonError(path, "holds no images", rebuild)
            if table == 0:
                raise BetonError(path, "is half-written: its table of allocations was never stored", rebuild)
            if table > size or (size - table) % _ALLOCATION.itemsize:
                raise BetonError(path, f"is truncated: {size:,} bytes do not reach the end of its table", rebuild)
            descriptors = np.frombuffer(file.read(fields * _FIELD.itemsize), _FIELD)
            file.seek(table)
            allocations = np.frombuffer(file.read(), _ALLOCATION)
    except OSError as error:
        fault = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise BetonError(path, fault, rebuild) from error
    if len(allocations):
        _check_allocations(path, allocations, samples, table, page_size)
    names = [bytes(row["name"]).split(b"\0")[0].decode("ascii", "replace") for row in descriptors]
    types = [_FIELD_TYPES.get(int(row["type_id"]), "unknown") for row in descriptors]
    return BetonInfo(path, samples, dict(zip(names, types, strict=True)), page_size, size)


def _check_allocations(path: Path, allocations: NDArray[np.void], samples: int, table: int, page_size: int) -> None:
    rebuild = rebuild_command(path)
    if len(allocations) < samples:
        raise BetonError(path, f"is truncated: its table knows {len(allocations):,} of {samples:,} images", rebuild)
    starts, sizes = allocations["ptr"], allocations["size"]
    if int(sizes.max()) > page_size or int(starts.max()) > table or int((starts + sizes).max()) > table:
        raise BetonError(path, "is damaged: its table of allocations points outside the file", rebuild)
    if int(allocations["sample_id"].max()) >= samples:
        raise BetonError(path, "is damaged: its table of allocations knows images that are not there", rebuild)
    if table % page_size:
        raise BetonError(path, "is damaged: not all of its pages are whole", rebuild)


def digest(path: Path) -> str:
    """SHA-256 of a file, about a second for a gigabyte."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_digest(path: Path, expected: str) -> None:
    """Checks the content of a file; a file that has not changed since is not read again by this process.

    Raises:
        BetonError: it is missing or its content is another one.
    """
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise BetonError(path, "is missing", rebuild_command(path)) from error
    found = _digest_of(path, status.st_size, status.st_mtime_ns, status.st_ino)
    if found != expected:
        raise BetonError(
            path,
            f"has changed: its SHA-256 digest should be {expected[:16]}..., found {found[:16]}...",
            rebuild_command(path),
        )


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, modified_ns: int, inode: int) -> str:
    return digest(path)


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Removes temporary .beton files whose writers are dead."""
    for leftover in folder.glob(".*.beton.tmp*"):
        writer = leftover.name.rpartition("tmp")[2]
        if writer.isdigit() and int(writer) != os.getpid() and not Path(f"/proc/{writer}").exists():
            leftover.unlink(missing_ok=True)


def check_columns(columns: Mapping[str, NDArray[np.int64]], samples: int) -> None:
    """Raises ValueError unless the integer fields have storable names and one integer for each of `samples` images."""
    for name, column_N in columns.items():
        if not name.isascii() or not 1 <= len(name) <= _LONGEST_NAME or name == "image":
            raise ValueError(f'field name "{name}" should be 1 to {_LONGEST_NAME} ASCII characters other than "image"')
        if column_N.shape != (samples,) or column_N.dtype.kind not in "iu":
            raise ValueError(
                f"field {name} should hold {samples:,} integers, found {column_N.dtype} of shape {column_N.shape}"
            )


def _write(
    path: Path,
    images_NHWC: NDArray[np.uint8],
    columns: Mapping[str, NDArray[np.int64]],
    progress: Callable[[int], None] | None,
) -> None:
    """Writes the file with ffcv."""
    from .beton_writer import InProcessWriter, image_field, integer_field

    fields = {"image": image_field(images_NHWC.shape[1:]), **{name: integer_field() for name in columns}}
    usual_page = 1 << 23 if images_NHWC.nbytes > 1 << 23 else _SMALLEST_PAGE
    page_size = max(usual_page, 1 << (images_NHWC[0].nbytes - 1).bit_length())
    rows = _Rows(images_NHWC, list(columns.values()), progress)
    InProcessWriter(str(path), fields, page_size=page_size, num_workers=1).from_indexed_dataset(rows)


@dataclass(frozen=True)
class _Rows:
    """What ffcv reads: one tuple of field values per image."""

    images_NHWC: NDArray[np.uint8]
    columns: list[NDArray[np.int64]]
    progress: Callable[[int], None] | None

    def __len__(self) -> int:
        return len(self.images_NHWC)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8] | int, ...]:
        if self.progress is not None and index % 10_000 == 0:
            self.progress(int(index))
        return (self.images_NHWC[index], *(int(column_N[index]) for column_N in self.columns))
