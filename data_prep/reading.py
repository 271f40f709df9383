"""Batches of images from a .beton file, through ffcv, without the ways in which ffcv hangs, leaks or dies."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union

import numpy as np
import torch
from numpy.typing import NDArray

from . import jpeg
from .beton import BetonError, check, rebuild_command
from .ffcv_import import import_ffcv, plain_loaders

import_ffcv()

from ffcv.loader import Loader as FfcvLoader  # noqa: E402
from ffcv.loader.epoch_iterator import EpochIterator  # noqa: E402
from ffcv.pipeline import PipelineSpec  # noqa: E402
from ffcv.pipeline.operation import Operation  # noqa: E402

T = TypeVar("T")
Images = Union[NDArray[np.uint8], "JpegBatch"]
Finish = Callable[[int, Images, NDArray[np.int64], "Team"], T]
_BATCHES_AHEAD = 2


class BetonReader:
    """An open .beton file; cheap to read many epochs from, also at the same time.

    Args:
        label: the integer field that is read beside the images.
        image_shape: (channels, height, width) of the raw images that the file has to hold; None: JPEG images of any
            size.

    Raises:
        BetonError: the file is missing, damaged, or holds something else.
    """

    def __init__(self, path: Path, label: str, image_shape: tuple[int, int, int] | None) -> None:
        info = check(path)
        self.path, self.bytes, self.samples = path, info.bytes, info.samples
        if "image" not in info.fields or info.fields.get(label) != "int":
            fault = f'has no fields "image" and "{label}", only {", ".join(info.fields)}'
            raise BetonError(path, fault, rebuild_command(path))
        images: _RawImages | _JpegImages = _JpegImages(path)
        if image_shape is not None:
            channels, height, width = image_shape
            images = _RawImages(path, (height, width, channels), info.page_size)
        with plain_loaders():
            pipelines: dict[str, Any] = dict.fromkeys(info.fields)
            pipelines["image"] = PipelineSpec("image", decoder=images)
            pipelines[label] = PipelineSpec(label, decoder=_Integers())
            self._loader = FfcvLoader(
                str(path),
                batch_size=1,
                num_workers=1,
                os_cache=True,
                seed=0,
                pipelines=pipelines,
                batches_ahead=_BATCHES_AHEAD,
            )
            if isinstance(images, _JpegImages):
                images.locate(self._loader.reader.alloc_table)
        # Mapped now, so that a data set prepared anew is never read by the old file's addresses.
        self._loader.memory_manager.context.__enter__()
        self._inode = path.stat().st_ino
        field = self._loader.field_name_to_f_ix[label]
        self.labels_N = np.ascontiguousarray(self._loader.reader.metadata[f"f{field}"], dtype=np.int64)

    def batches(self, batches: Sequence[NDArray[np.int64]], finish: "Finish[T]", threads: int = 1) -> "Reading[T]":
        """Reads batches of indices in a thread of its own; `finish(number, images, labels_B, team)` runs there too.

        Args:
            finish: its images are uint8 (B, H, W, C), or `JpegBatch`; its team has so many threads to share work among.

        Raises:
            BetonError: the file has been cut short since it was opened.
        """
        for indices_B in batches:
            assert len(indices_B) and indices_B.min() >= 0 and indices_B.max() < self.samples, "index out of range"
        status = self.path.stat() if self.path.exists() else None
        if status is not None and status.st_ino == self._inode and status.st_size < self.bytes:
            # Touching the lost part of a mapped file would kill the process.
            raise BetonError(self.path, "was cut short while it was in use", rebuild_command(self.path))
        return Reading(self._loader, batches, finish, threads)


class Team:
    """Threads that share the images of a batch; for use in a `with` statement.

    Args:
        stopped: once it is set, work that has not begun is left out.
    """

    def __init__(self, threads: int, stopped: threading.Event) -> None:
        self.threads, self._stopped = threads, stopped
        self._pool = ThreadPoolExecutor(threads, "images")
        all_there = threading.Barrier(threads)

        def begin(_: int) -> None:
            # One thread each: torch's own would fight over the cores.
            torch.set_num_threads(1)
            all_there.wait()

        list(self._pool.map(begin, range(threads)))

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def share(self, work: Callable[[slice], None], count: int, least: int, most: int) -> None:
        """Calls `work` for slices of 0..count-1 with `least` to `most` members each; raises the first of its errors."""
        size = min(max(-(-count // self.threads), least), most)

        def unless_stopped(part: slice) -> None:
            if not self._stopped.is_set():
                work(part)

        futures = [self._pool.submit(unless_stopped, slice(at, min(at + size, count))) for at in range(0, count, size)]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()


class Reading(EpochIterator, Iterator[T]):
    """One pass over batches, a few ahead of its consumer. Errors surface in the consumer; `stop` ends the thread."""

    def __init__(
        self,
        loader: Any,
        batches: Sequence[NDArray[np.int64]],
        finish: "Finish[T]",
        threads: int,
    ) -> None:
        self._batches, self._finish, self._threads = batches, finish, threads
        self._error: BaseException | None = None
        self._ready = threading.Event()
        threads = torch.get_num_threads()
        super().__init__(loader, ())  # starts the thread
        self._ready.wait()
        torch.set_num_threads(threads)

    def run(self) -> None:
        """Fills the queue; runs in the thread."""
        # One thread here: the cores belong to the training step. torch takes this as the default of threads to come
        # too, which is why the consumer waits and sets its own number again.
        torch.set_num_threads(1)
        try:
            with Team(self._threads, self.terminate_event) as team, torch.inference_mode(False), torch.no_grad():
                self._ready.set()
                for number, indices_B in enumerate(self._batches):
                    images, labels_B = self.run_pipeline(number, indices_B, 0, None)
                    if not self._put(self._finish(number, images, labels_B, team)):
                        return
        except BaseException as error:  # whatever it is, the consumer has to learn of it
            self._error = error
        finally:
            self._ready.set()
        self._put(None)

    def _put(self, item: T | None) -> bool:
        while not self.terminate_event.is_set():
            with contextlib.suppress(queue.Full):
                self.output_queue.put(item, timeout=0.1)
                return True
        return False

    def __next__(self) -> T:
        while True:
            try:
                item = self.output_queue.get(timeout=1.0)
                break
            except queue.Empty:
                if not self.is_alive() and self.output_queue.empty():
                    raise RuntimeError("the thread that reads images has died") from self._error
        if item is not None:
            return item
        self.stop()
        if self._error is not None:
            raise self._error
        raise StopIteration

    def stop(self) -> None:
        """Ends the thread, also in the middle of an epoch."""
        self.terminate_event.set()
        while self.is_alive():
            with contextlib.suppress(queue.Empty):
                while True:
                    self.output_queue.get_nowait()
            self.join(0.01)


class _RawImages(Operation):
    """Reads uncompressed images of one shape as fresh arrays (B, H, W, C): ffcv's own batches are views that change.

    Pages hold whole images back to back, so a batch is one indexing operation on a strided view of the file.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int], page_size: int) -> None:
        super().__init__()
        self.path, self.shape, self.page_size = path, shape, page_size
        self._decode: Callable[..., NDArray[np.uint8]] | None = None

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
        return previous_state, None

    def generate_code(self) -> Callable[..., NDArray[np.uint8]]:
        if self._decode is None:
            self._decode = self._decoder()
        return self._decode

    def _decoder(self) -> Callable[..., NDArray[np.uint8]]:
        shape, size, page_size = self.shape, int(np.prod(self.shape)), self.page_size
        addresses_N = self._addresses()
        start = int(addresses_N.min())
        page_N, offset_N = np.divmod(addresses_N - start, page_size)
        slot_N, rest_N = np.divmod(offset_N, size)
        pages, slots = int(page_N.max()) + 1, page_size // size
        if rest_N.any() or int(slot_N.max()) >= slots:
            raise BetonError(self.path, "is damaged: its images do not lie side by side", rebuild_command(self.path))

        def decode(indices_B: NDArray[np.int64], _: None, metadata: Any, state: Any) -> NDArray[np.uint8]:
            content = np.asarray(state[0])[start:]
            assert content.nbytes >= pages * page_size
            view_PSD = np.lib.stride_tricks.as_strided(
                content, (pages, slots, size), (page_size, size, 1), writeable=False
            )
            return view_PSD[page_N[indices_B], slot_N[indices_B]].reshape(len(indices_B), *shape)

        return decode

    def _addresses(self) -> NDArray[np.int64]:
        """Where each image starts in the file; raises BetonError for images of another shape or compressed ones."""
        names = self.metadata.dtype.names
        if names is None:  # an array field, whose shape is in its descriptor
            found = {tuple(int(side) for side in self.field.shape)}
            addresses_N = self.metadata
        else:
            sides = np.unique(np.stack([self.metadata["height"], self.metadata["width"]], axis=1), axis=0)
            found = {(int(height), int(width), 3) for height, width in sides}
            addresses_N = self.metadata["data_ptr"]
            if (self.metadata["mode"] != 1).any():
                raise BetonError(self.path, "holds compressed images", rebuild_command(self.path))
        if found != {self.shape}:
            shapes = ", ".join(map(str, sorted(found)[:3]))
            raise BetonError(self.path, f"holds images of shape {shapes}, not {self.shape}", rebuild_command(self.path))
        return np.ascontiguousarray(addresses_N).astype(np.int64)


class JpegBatch:
    """The images of a batch, each still to be decoded.

    Args:
        indices_B: which images of the file these are.
    """

    def __init__(self, images: "_JpegImages", content: NDArray[np.uint8], indices_B: NDArray[np.int64]) -> None:
        self._path, self._indices_B = images.path, indices_B
        self._content = content  # keeps the file mapped
        self._addresses_B = content.ctypes.data + images.starts_N[indices_B]
        self._sizes_B = images.sizes_N[indices_B]
        self.heights_B, self.widths_B = images.heights_N[indices_B], images.widths_N[indices_B]

    def __len__(self) -> int:
        return len(self._indices_B)

    def decode(self, place: int) -> NDArray[np.uint8]:
        """Image number `place` of the batch: uint8 (H, W, 3), until the calling thread decodes another one.

        Raises:
            BetonError: the image is damaged; the message names the file and the image's index in it.
        """
        facts = (self._addresses_B, self._sizes_B, self.heights_B, self.widths_B)
        try:
            return jpeg.decode(*(int(numbers_B[place]) for numbers_B in facts))
        except jpeg.JpegError as error:
            fault = f"is damaged: its image {self._indices_B[place]} {error}"
            raise BetonError(self._path, fault, rebuild_command(self._path)) from error


class _JpegImages(Operation):
    """Finds JPEG images of any size; whoever gets them decodes them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def locate(self, allocations: NDArray[np.void]) -> None:
        """Reads where every image lies, how many bytes it has (which only the table of allocations knows) and its size.

        Raises:
            BetonError: the images are not JPEG files, or not in the table.
        """
        metadata = self.metadata
        if metadata.dtype.names is None or (metadata["mode"] != 0).any():
            raise BetonError(self.path, "holds uncompressed images, not JPEG", rebuild_command(self.path))
        self.starts_N, self.heights_N, self.widths_N = (
            np.ascontiguousarray(metadata[name]).astype(np.int64) for name in ("data_ptr", "height", "width")
        )
        allocations = np.sort(allocations, order="ptr")
        places_N = np.searchsorted(allocations["ptr"], self.starts_N).clip(max=len(allocations) - 1)
        if (allocations["ptr"][places_N] != self.starts_N).any():
            fault = "is damaged: its table of allocations lacks some of its images"
            raise BetonError(self.path, fault, rebuild_command(self.path))
        self.sizes_N = allocations["size"][places_N].astype(np.int64)

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
        return previous_state, None

    def generate_code(self) -> Callable[..., JpegBatch]:
        def find(indices_B: NDArray[np.int64], _: None, metadata: Any, state: Any) -> JpegBatch:
            return JpegBatch(self, np.asarray(state[0]), indices_B)

        return find


class _Integers(Operation):
    """Reads an integer field as a fresh array (B,)."""

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
        return previous_state, None

    def generate_code(self) -> Callable[..., NDArray[np.int64]]:
        def decode(indices_B: NDArray[np.int64], _: None, metadata: Any, state: Any) -> NDArray[np.int64]:
            return metadata[indices_B].astype(np.int64)

        return decode


def open_reader(path: Path, label: str, image_shape: tuple[int, int, int] | None) -> BetonReader:
    """A reader of the file as it is now, shared by everyone in the process who reads the same.

    Raises:
        BetonError: as BetonReader.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise BetonError(path, "is missing", rebuild_command(path)) from error
    return _reader(path, label, image_shape, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=16)
def _reader(path: Path, label: str, image_shape: tuple[int, int, int] | None, version: tuple[int, ...]) -> BetonReader:
    return BetonReader(path, label, image_shape)
