"""Original image files made fit for storing: JPEG bytes as they are wherever possible, else encoded anew."""

import io
import multiprocessing
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

T = TypeVar("T")
QUALITY = 95
"""JPEG quality of images that have to be encoded anew."""
_LONGEST_EDGE = (1 << 16) - 1
_CHUNK, _CHUNKS_AHEAD = 16, 4


@dataclass(frozen=True)
class Encoded:
    """One image as it is stored."""

    content: bytes
    """A JPEG file."""
    height: int
    width: int
    original: bool
    """Whether these are the bytes of the original file."""
    damage: str = ""
    """What is wrong with a file that could be decoded all the same."""


class Unreadable(Exception):
    """An image file that cannot be used, with the reason."""


@dataclass
class Faults:
    """Image files that turned out to be unreadable, of which a number is forgiven."""

    allowed: int = 0
    found: dict[str, str] = field(default_factory=dict)
    """Path -> reason."""

    def add(self, path: Path, reason: str) -> None:
        """Raises ValueError for one more than is forgiven."""
        self.found[str(path)] = reason
        if len(self.found) > self.allowed:
            number = f"{len(self.found)} images cannot be used, the last is " if self.allowed else ""
            raise ValueError(
                f"{number}{path}: {reason}; fetch it again, or leave out up to N such images with --skip-unreadable N"
            )


@dataclass(frozen=True)
class _Fault:
    reason: str


def as_jpeg(path: Path, shorter_edge: int | None) -> Encoded:
    """The file's own bytes if they are an upright RGB or grey JPEG within `shorter_edge`, else the image encoded anew.

    Images are decoded in any case, so that a damaged one is found now. Encoded anew are those that are larger, that an
    EXIF tag turns, CMYK ones, other formats, and slightly damaged ones, of which some official sets have a few; the
    resize is Pillow's antialiased bilinear one, as in the recipes.

    Raises:
        Unreadable: not an image, damaged, or too large.
    """
    with _reading(path) as (content, image):
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) not in (0, 1)
        small = shorter_edge is None or min(image.size) <= shorter_edge
        damage = ""
        if image.format == "JPEG" and image.mode in ("RGB", "L") and small and not turned:
            damage = _damage(content, image.height, image.width)
            if not damage:
                return Encoded(content, image.height, image.width, True)
        upright = _upright(image, 3)
        if shorter_edge is not None and min(upright.size) > shorter_edge:
            upright = upright.resize(_reduced(upright.size, shorter_edge), Image.Resampling.BILINEAR)
        buffer = io.BytesIO()
        upright.save(buffer, "JPEG", quality=QUALITY)
        return Encoded(buffer.getvalue(), upright.height, upright.width, False, damage)


def as_pixels(path: Path, size: int, channels: int) -> NDArray[np.uint8]:
    """The image as uint8 (size, size, channels).

    Raises:
        Unreadable: not an image, damaged, or of another size.
    """
    with _reading(path) as (_, image):
        upright = _upright(image, channels)
    if upright.size != (size, size):
        raise Unreadable(f"it has {upright.width} x {upright.height} pixels, not {size} x {size}")
    return np.asarray(upright, np.uint8).reshape(size, size, channels)


def size_of(path: Path) -> tuple[int, int, bool]:
    """(height, width, grey) from the head of an image file.

    Raises:
        Unreadable: not an image.
    """
    with _reading(path) as (_, image):
        return image.height, image.width, image.mode in ("1", "L", "I;16")


class _reading:
    """Opens an image file; whatever goes wrong inside is raised as `Unreadable`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> tuple[bytes, Image.Image]:
        self._warnings.__enter__()
        warnings.simplefilter("ignore")  # Pillow's remarks on odd EXIF data and on large images
        try:
            content = self.path.read_bytes()
            return content, Image.open(io.BytesIO(content))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._warnings.__exit__(None, None, None)
        if isinstance(error, UnidentifiedImageError):
            raise Unreadable("it is not an image") from error
        if isinstance(error, FileNotFoundError):
            raise Unreadable("it does not exist") from error
        if isinstance(error, Exception) and not isinstance(error, Unreadable):  # damaged files raise nearly anything
            raise Unreadable(str(error) or type(error).__name__) from error


def _damage(content: bytes, height: int, width: int) -> str:
    """Why the loader, which is stricter than Pillow, would refuse this JPEG file; empty if it would not."""
    from .jpeg import JpegError, decode

    buffer = np.frombuffer(content, np.uint8)
    try:
        decode(buffer.ctypes.data, len(content), height, width)
    except JpegError as error:
        return str(error)
    return ""


def _upright(image: Image.Image, channels: int) -> Image.Image:
    """The image as EXIF turns it, in RGB or grey."""
    if max(image.size) > _LONGEST_EDGE:
        raise Unreadable(f"it has {image.width} x {image.height} pixels, allowed are {_LONGEST_EDGE:,} a side")
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):  # 16 bits a pixel, which Pillow would cut off at 255
        upright = Image.fromarray((np.asarray(upright, np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if upright.mode == "P":  # its transparent colours need an alpha channel on the way
        upright = upright.convert("RGBA")
    return upright.convert("RGB" if channels == 3 else "L")


def _reduced(size: tuple[int, int], shorter_edge: int) -> tuple[int, int]:
    """(width, height) with this shorter edge, rounded down like torchvision's Resize."""
    width, height = size
    if width <= height:
        return shorter_edge, int(shorter_edge * height / width)
    return int(shorter_edge * width / height), shorter_edge


def each(function: Callable[[Path], T], paths: Sequence[Path], workers: int, faults: Faults) -> Iterator[T | None]:
    """`function` of every path, in order, computed in `workers` processes; None for an unreadable image.

    Raises:
        ValueError: more unreadable images than `faults` allows, or a process has died.
    """
    attempt = partial(_attempt, function)
    if workers <= 1 or len(paths) <= 2 * _CHUNK:  # starting processes would take longer
        results: Iterator[T | _Fault] = map(attempt, paths)
        yield from (_kept(path, result, faults) for path, result in zip(paths, results, strict=True))
        return
    chunks = (paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK))
    waiting: deque[tuple[Sequence[Path], Future[list[T | _Fault]]]] = deque()
    # New interpreters: forking a process in which other threads hold locks can hang the copy.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_end_with_parent)
    try:
        while True:
            for chunk in islice(chunks, _CHUNKS_AHEAD * workers - len(waiting)):
                waiting.append((chunk, pool.submit(_attempt_all, attempt, chunk)))
            if not waiting:
                return
            chunk, future = waiting.popleft()
            yield from (_kept(path, result, faults) for path, result in zip(chunk, future.result(), strict=True))
    except BrokenProcessPool as error:
        raise ValueError(
            "a process that decodes images has died, perhaps for want of memory; try it with fewer --workers"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _attempt(function: Callable[[Path], T], path: Path) -> T | _Fault:
    try:
        return function(path)
    except Unreadable as error:
        return _Fault(str(error))


def _attempt_all(attempt: Callable[[Path], T | _Fault], paths: Sequence[Path]) -> list[T | _Fault]:
    return [attempt(path) for path in paths]


def _kept(path: Path, result: T | _Fault, faults: Faults) -> T | None:
    if isinstance(result, _Fault):
        faults.add(path, result.reason)
        return None
    return result


def _end_with_parent() -> None:
    """Without this, the workers of a killed process would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
