"""The idx format of MNIST and its like: a big-endian header, then bytes; plain or gzipped."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..catalogue import DatasetEntry
from .base import Images, Originals, checked_content

_UNSIGNED_BYTES = 0x08


def read(entry: DatasetEntry, folder: Path) -> Originals:
    """Reads the four files from `folder`, or from the folders torchvision would put them in.

    Raises:
        ValueError: a file is missing, damaged or not the official one.
    """
    digests: dict[str, str] = {}
    arrays: dict[str, NDArray[np.uint8]] = {}
    for name, expected in entry.files.items():
        path = find(entry, folder, name)
        if path is None:
            needed = ", ".join(entry.files)
            raise ValueError(f"{name} (or {name}.gz) of {entry.name} is missing in {folder}; needed: {needed}")
        content = _content(path)
        digests[str(path)] = checked_content(path, content, expected)
        arrays[name] = parse(path, content)
    splits = [
        Images(arrays[f"{prefix}-images-idx3-ubyte"][..., None], arrays[f"{prefix}-labels-idx1-ubyte"].astype(np.int64))
        for prefix in ("train", "t10k")
    ]
    return Originals(splits[0], splits[1], digests)


def parse(path: Path, content: bytes) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes; its shape is in the header.

    Raises:
        ValueError: the header or the size is wrong.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES or not 1 <= content[3] <= 4:
        raise ValueError(
            f"{path} is not an idx file of unsigned bytes: it starts with {content[:4].hex(' ') or 'nothing'}"
        )
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise ValueError(f"{path} ends inside its header, after {len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise ValueError(f"{path} should hold {expected:,} bytes for shape {shape}, found {len(content):,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def find(entry: DatasetEntry, folder: Path, name: str) -> Path | None:
    """An original file in `folder` or where torchvision puts it under `folder`."""
    torchvision_folder = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}.get(entry.name, entry.name)
    for place in (folder, folder / "raw", folder / torchvision_folder / "raw"):
        for path in (place / name, place / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is a damaged gzip file ({error}); fetch it again") from error
