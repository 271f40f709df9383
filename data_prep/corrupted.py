"""Corrupted test sets: one .beton file per corruption and severity, made in parallel and continued after a stop."""

import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .beton import BetonError, digest, remove_leftovers, sync_folder, verify_digest, write_beton
from .corruption.constants import CORRUPTIONS, SEVERITIES
from .corruption.sources import (
    Chunk,
    CleanImages,
    Encoded,
    Job,
    ReleasedArrays,
    ReleasedTree,
    corrupt_chunk,
    find_release,
)
from .dataset_entry import DatasetEntry
from .prepared import FORMAT, MANIFEST, Split, open_split

_SECONDS_BETWEEN_NEWS = 10.0
_RAW_CHUNK, _JPEG_CHUNK = 250, 16
_BYTES_PER_JPEG = 60_000
_PAGE = 1 << 23
_EMPTY: Mapping[str, Any] = {"splits": {}, "files": {}}

Log = Callable[[str], None]


def prepare_corrupted(
    dataset: DatasetEntry,
    root: Path,
    source: Path | None = None,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] | None = None,
    workers: int | None = None,
    log: Log = print,
    force: bool = False,
    executor: Executor | None = None,
) -> Path:
    """Makes `root`/NAME with one file `CORRUPTION_SEVERITY.beton` each and a manifest; the caller holds NAME's lock.

    Files that are there and whole are kept, so a run that was stopped continues, and more corruptions can be added
    later. Every image depends on its index, the corruption and the severity alone, not on the number of workers.

    Args:
        dataset: a catalogue entry that names its clean data set.
        source: folder of the official release; without it the images are made from the prepared clean test set.
        corruptions, severities: which; None for all.
        workers: processes that corrupt images; None for one per CPU, 1 for this process alone.
        log: gets a line of text every ten seconds.
        force: make everything again, also what was made in another way.
        executor: where images are corrupted instead of in processes of this machine; `workers` at a time.

    Raises:
        ValueError: unknown names, a release that is not whole, a clean data set that is not prepared (BetonError),
            files that were made in another way, or a root that cannot be written or is full.
    """
    jobs = _jobs(corruptions, severities)
    folder = Path(root).absolute() / dataset.name
    number = _number_of(workers)
    try:
        earlier = _EMPTY if force else _whole(folder, dataset.name, log)
        todo = [job for job in jobs if job.split not in earlier["splits"]]
        if todo or source is not None:
            origin = _origin(dataset, folder.parent, source, jobs)
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            manifest = _continued(earlier, folder, dataset, origin)
            _check_space(dataset, folder, origin.count, len(todo))
            _make(dataset, folder, origin, todo, manifest, number, log, executor)
        log(f"{dataset.name}: prepared in {folder}; files asked for: {len(jobs)}, {len(todo)} of them new")
    except BrokenProcessPool as error:
        raise ValueError(
            f"a worker that made {dataset.name} was ended, perhaps for want of memory: run it again with fewer "
            "workers; finished files are kept"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"cannot prepare {dataset.name} in {folder}: {reason}; finished files are kept") from error
    return folder


def open_corrupted(root: Path, name: str, corruption: str, severity: int, verify: bool = True) -> Split:
    """One corruption and severity of a corrupted data set, for `Loader`.

    Raises:
        ValueError: unknown data set, corruption or severity; BetonError: it is not prepared, or damaged.
    """
    (job,) = _jobs([corruption], [severity])
    return open_split(root, name, job.split, verify)


def _jobs(corruptions: Sequence[str] | None, severities: Sequence[int] | None) -> list[Job]:
    wanted = CORRUPTIONS if corruptions is None else corruptions
    strengths = SEVERITIES if severities is None else severities
    for kind, chosen, known in (("corruption", wanted, CORRUPTIONS), ("severity", strengths, SEVERITIES)):
        unknown = [str(one) for one in chosen if one not in known]
        if unknown or not chosen:
            fault = f'unknown {kind} "{unknown[0]}"' if unknown else f"no {kind} was chosen"
            raise ValueError(f"{fault}; allowed: {', '.join(map(str, known))}")
    return [Job(name, severity) for name in CORRUPTIONS if name in wanted for severity in sorted(set(strengths))]


Origin = ReleasedArrays | ReleasedTree | CleanImages


def _origin(dataset: DatasetEntry, root: Path, source: Path | None, jobs: Sequence[Job]) -> Origin:
    if source is not None:
        return find_release(dataset, Path(source).absolute(), jobs)
    assert dataset.clean is not None, "an entry of a corrupted data set names its clean one"
    return CleanImages(open_split(root, dataset.clean, "test"))


def _whole(folder: Path, name: str, log: Log) -> Mapping[str, Any]:
    """The manifest of an earlier run, with those files that are whole; what no manifest vouches for is made again."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if manifest["format"] != FORMAT or "making" not in manifest:
            return _EMPTY
        expected = {split: manifest["files"][facts["file"]]["sha256"] for split, facts in manifest["splits"].items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return _EMPTY
    for split, sha256 in expected.items():
        file = manifest["splits"][split]["file"]
        try:
            verify_digest(folder / file, sha256)
        except BetonError as error:
            log(f"{name}: {file} {error.fault}; making it again")
            del manifest["splits"][split], manifest["files"][file]
    if manifest["splits"]:
        log(f"{name}: {len(manifest['splits'])} files are there and whole")
    return dict(manifest)


def _continued(earlier: Mapping[str, Any], folder: Path, dataset: DatasetEntry, origin: Origin) -> dict[str, Any]:
    """The manifest to go on with: files of an earlier run are listed in it already."""
    making = origin.facts()
    if earlier["splits"] and earlier["making"] != making:
        raise ValueError(
            f"the files in {folder} were made {earlier['making'].get('made')}, others now would be made "
            f"{making['made']}, from other images or in another way: remove that folder, or prepare it with --force"
        )
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "name": dataset.name,
        "title": dataset.title,
        "licence": dataset.licence,
        "origin": dataset.origin,
        "class_names": list(origin.class_names),
        "extra_labels": {},
        "source": {"folder": str(origin.folder)},
        "making": making,
        "splits": dict(earlier["splits"]),
        "files": dict(earlier["files"]),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("ffcv", "numpy", "scipy", "pillow", "imagecorruptions-imaug")},
        },
    }
    if dataset.image_size is not None:
        manifest["image_shape"] = list(dataset.image_shape)
    return manifest


def _make(
    dataset: DatasetEntry,
    folder: Path,
    origin: Origin,
    todo: list[Job],
    manifest: dict[str, Any],
    workers: int,
    log: Log,
    executor: Executor | None,
) -> None:
    log(f"{dataset.name}: making {len(todo)} files of {origin.count:,} images {origin.facts()['made']}")
    news = _News(dataset.name, len(todo), origin.count, log)
    per_class = np.bincount(origin.labels_N, minlength=len(origin.class_names)).tolist()
    with _images(origin, todo, workers, news, executor) as images_of:
        for done, job in enumerate(todo):
            news.files = done
            path = folder / f"{job.split}.beton"
            images = images_of(job)
            if isinstance(images, np.ndarray):
                write_beton(path, images, origin.labels_N)
            else:
                from .beton_writer import write_jpeg_beton

                write_jpeg_beton(path, images, origin.labels_N)
            manifest["files"][path.name] = {"bytes": path.stat().st_size, "sha256": digest(path)}
            manifest["splits"][job.split] = {
                "file": path.name,
                "indices": None,
                "count": origin.count,
                "per_class": per_class,
            }
            _write_manifest(folder, manifest)


@contextlib.contextmanager
def _images(
    origin: Origin, todo: list[Job], workers: int, news: "_News", executor: Executor | None
) -> Iterator[Callable[[Job], "np.ndarray[Any, np.dtype[np.uint8]] | Iterable[Encoded]"]]:
    """Gives a function of the next job that returns its images: an array, or JPEG files one after another."""
    if isinstance(origin, ReleasedArrays):
        yield origin.images
        return
    if isinstance(origin, ReleasedTree):
        yield lambda job: (one for (one,) in news.counted((one,) for one in origin.encoded(job)))
        return
    size = _JPEG_CHUNK if origin.jpeg else _RAW_CHUNK
    chunks_per_job = -(-origin.count // size)
    chunks = (chunk for job in todo for chunk in origin.chunks(job, size))
    with contextlib.ExitStack() as stack:
        if executor is None and workers == 1:
            results: Iterator[Any] = map(_corrupt_in_one_thread, chunks)
        else:
            if executor is None:
                context = multiprocessing.get_context("spawn")
                executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
                stack.callback(executor.shutdown, wait=True, cancel_futures=True)
            # Workers go on with the next file while this process writes one.
            results = _in_order(executor, chunks, ahead=max(4 * workers, min(chunks_per_job, 64)))

        def images_of(job: Job) -> Any:
            mine = news.counted(islice(results, chunks_per_job))
            return (image for chunk in mine for image in chunk) if origin.jpeg else np.concatenate(list(mine))

        yield images_of


def _in_order(executor: Executor, chunks: Iterator[Chunk], ahead: int) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque(
        executor.submit(_corrupt_in_one_thread, chunk) for chunk in islice(chunks, ahead)
    )
    while waiting:
        result = waiting.popleft().result()
        waiting.extend(executor.submit(_corrupt_in_one_thread, chunk) for chunk in islice(chunks, 1))
        yield result


def _corrupt_in_one_thread(chunk: Chunk) -> Any:
    """One thread wherever it runs: sums are split in the same way, so that results are the same to the last bit."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return corrupt_chunk(chunk)


def _start_worker() -> None:
    """For the life of a worker: one thread of work, as there is a worker per core, and no life after its parent's."""
    import cv2

    threading.Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)


def _end_with_parent() -> None:
    """A pool's workers would wait for work for ever if their parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _News:
    """Says every ten seconds how far things are."""

    def __init__(self, name: str, files_total: int, images_per_file: int, log: Log) -> None:
        self.files = 0
        self._name, self._total, self._per_file, self._log = name, files_total, images_per_file, log
        self._images, self._started = 0, time.monotonic()
        self._last = self._started

    def counted(self, chunks: Iterator[Any]) -> Iterator[Any]:
        """The same chunks; their images are counted as they pass."""
        for chunk in chunks:
            self._images += len(chunk)
            now = time.monotonic()
            if now - self._last > _SECONDS_BETWEEN_NEWS:
                self._last = now
                total = self._total * self._per_file
                left = (now - self._started) * (total - self._images) / self._images
                self._log(
                    f"{self._name}: {self.files} of {self._total} files, {self._images:,} of {total:,} images, "
                    f"about {left / 60:.0f} minutes left"
                )
            yield chunk


def _number_of(workers: int | None) -> int:
    if workers is not None and workers < 1:
        raise ValueError(f"workers should be at least 1, found {workers}")
    return workers if workers is not None else len(os.sched_getaffinity(0))


def _check_space(dataset: DatasetEntry, folder: Path, count: int, files: int) -> None:
    side = dataset.image_size
    per_image = _BYTES_PER_JPEG if side is None else dataset.channels * side**2
    needed = files * (count * (per_image + 64) + 2 * _PAGE)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"not enough space in {folder} for {files} files of {dataset.name}: "
            f"they need about {needed / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free"
        )


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    temporary = folder / f".{MANIFEST}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / MANIFEST)
    sync_folder(folder)
