"""From original files to a prepared data set: all of it or nothing."""

import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import sources
from .beton import BetonError, digest, sync_folder, write_beton
from .catalogue import DatasetEntry, entry
from .originals import locate
from .prepared import FORMAT, MANIFEST, Description, Split, check_prepared, describe, open_split, verify
from .subsets import SPLIT_SEED, VALIDATION_SHARE, stratified_split

__all__ = ["Description", "Split", "check_prepared", "describe", "open_split", "prepare", "verify"]

_TRAIN, _TEST = "train_full.beton", "test.beton"
_SECONDS_BETWEEN_NEWS = 10.0


def prepare(
    name: str,
    root: Path,
    source: Path | None = None,
    force: bool = False,
    log: Callable[[str], None] = print,
) -> Path:
    """Makes `root`/`name`: the official training and test set as .beton files, the validation split, and a manifest.

    A data set that is there and whole is kept. The folder appears under its name only when everything in it is written;
    a run that is killed leaves at most a hidden folder, which the next one removes. A second run for the same data set
    waits for the first.

    Args:
        source: folder of the original files; without it they are looked for, then downloaded (see data_prep.originals).
        force: write it again even if it is there.
        log: gets a line of text per step.

    Raises:
        ValueError: unknown data set, wrong or missing originals, or a root that cannot be written or is full.
    """
    dataset = entry(name)
    root = Path(root).absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _only_one(root, dataset.name, log):
            if not force and _is_ready(root, dataset, log):
                return root / dataset.name
            return _build(dataset, root, source, log)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"cannot prepare {dataset.name} in {root}: {reason}; nothing was changed there") from error


def _is_ready(root: Path, dataset: DatasetEntry, log: Callable[[str], None]) -> bool:
    folder = root / dataset.name
    if not folder.exists():
        return False
    try:
        check_prepared(root, dataset.name)
        verify(folder)
    except BetonError as error:
        log(f"{dataset.name}: {error.path} {error.fault}; preparing it again")
        return False
    log(f"{dataset.name}: already prepared in {folder}")
    return True


def _build(dataset: DatasetEntry, root: Path, source: Path | None, log: Callable[[str], None]) -> Path:
    started = time.monotonic()
    for leftover in root.glob(f".{dataset.name}.preparing-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    _check_space(dataset, root)
    folder = locate(dataset, root, Path(source).absolute() if source is not None else None, log)
    log(f"{dataset.name}: reading the originals in {folder}")
    originals = sources.read(dataset, folder)
    staging = root / f".{dataset.name}.preparing-{os.getpid()}"
    try:
        staging.mkdir()
        indices = _write_files(dataset, originals, staging, log)
        manifest = _manifest(dataset, originals, folder, staging, indices)
        _write_durably(staging / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        final = root / dataset.name
        _publish(staging, final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    counts = ", ".join(f"{split} {facts['count']:,}" for split, facts in manifest["splits"].items())
    log(f"{dataset.name}: prepared in {final} in {time.monotonic() - started:.1f} s ({counts})")
    return final


def _write_files(
    dataset: DatasetEntry, originals: sources.Originals, staging: Path, log: Callable[[str], None]
) -> dict[str, NDArray[np.int64]]:
    for file, images in ((_TRAIN, originals.train), (_TEST, originals.test)):
        total = len(images.images_NHWC)
        news = _progress(f"{dataset.name}: writing {file}", total, log)
        write_beton(staging / file, images.images_NHWC, images.labels_N, images.extra_N, news)
    train, validation = stratified_split(originals.train.labels_N)
    indices = {"train": train, "validation": validation}
    for split, chosen in indices.items():
        with (staging / f"{split}_indices.npy").open("wb") as file_:
            np.save(file_, chosen, allow_pickle=False)
            file_.flush()
            os.fsync(file_.fileno())
    return indices


def _manifest(
    dataset: DatasetEntry,
    originals: sources.Originals,
    folder: Path,
    staging: Path,
    indices: dict[str, NDArray[np.int64]],
) -> dict[str, Any]:
    train_N, test_N = originals.train.labels_N, originals.test.labels_N

    def facts(file: str, labels_N: NDArray[np.int64], list_name: str | None) -> dict[str, Any]:
        per_class = np.bincount(labels_N, minlength=dataset.num_classes).tolist()
        return {"file": file, "indices": list_name, "count": len(labels_N), "per_class": per_class}

    return {
        "format": FORMAT,
        "name": dataset.name,
        "title": dataset.title,
        "licence": dataset.licence,
        "origin": dataset.origin,
        "image_shape": list(dataset.image_shape),
        "class_names": list(dataset.class_names),
        "extra_labels": {name: list(classes) for name, classes in dataset.extra_labels.items()},
        "source": {"folder": str(folder), "md5": originals.digests},
        "validation": {"share": VALIDATION_SHARE, "seed": SPLIT_SEED, "draw": "sklearn StratifiedShuffleSplit"},
        "splits": {
            **{name: facts(_TRAIN, train_N[chosen], f"{name}_indices.npy") for name, chosen in indices.items()},
            "train_full": facts(_TRAIN, train_N, None),
            "test": facts(_TEST, test_N, None),
        },
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": digest(path)} for path in sorted(staging.iterdir())
        },
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("ffcv", "numpy", "scikit-learn")},
        },
    }


def _publish(staging: Path, final: Path) -> None:
    """Gives the finished folder its name; an older one steps aside first, and what is read from it stays readable."""
    sync_folder(staging)
    if final.exists():
        aside = staging.with_name(f"{staging.name}-old")
        os.rename(final, aside)
        os.rename(staging, final)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(staging, final)
    sync_folder(final.parent)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check_space(dataset: DatasetEntry, root: Path) -> None:
    images = dataset.train_count + dataset.test_count
    pixels = dataset.channels * dataset.image_size**2
    page = 1 << 23
    needed = images * (pixels + 64) + 4 * page
    free = shutil.disk_usage(root).free
    if free < needed:
        raise ValueError(
            f"not enough space in {root} for {dataset.name}: "
            f"it needs {needed / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free"
        )


def _progress(what: str, total: int, log: Callable[[str], None]) -> Callable[[int], None]:
    last = time.monotonic()
    log(f"{what} ({total:,} images)")

    def news(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > _SECONDS_BETWEEN_NEWS:
            last = time.monotonic()
            log(f"{what}: {done:,} of {total:,} images")

    return news


@contextmanager
def _only_one(root: Path, name: str, log: Callable[[str], None]) -> Iterator[None]:
    """Holds the data set's lock; the kernel frees it when its holder dies, however that happens."""
    with (root / f".{name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"{name}: another process prepares it in {root}, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
