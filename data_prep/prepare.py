"""From original files to a prepared data set: all of it or nothing."""

import difflib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

from . import sources
from .beton import BetonError, sync_folder
from .catalogue import CATALOGUE, DatasetEntry, entry, key_of
from .encoding import Faults
from .originals import locate
from .prepared import Description, Split, check_prepared, describe, open_split, verify
from .sources.folders import own_entry
from .writing import Writer, check_space

__all__ = ["Description", "Split", "check_prepared", "describe", "open_split", "prepare", "verify"]

_OWN_NAME = re.compile(r"[a-z0-9_]{1,100}")


def prepare(
    name: str,
    root: Path,
    source: Path | None = None,
    force: bool = False,
    log: Callable[[str], None] = print,
    workers: int = 1,
    skip_unreadable: int = 0,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] | None = None,
    executor: Executor | None = None,
) -> Path:
    """Makes `root`/`name`: the official training and test set as .beton files, the validation split, and a manifest.

    A data set that is there and whole is kept. The folder appears under its name only when everything in it is written;
    a run that is killed leaves at most a hidden folder, which the next one removes. A second run for the same data set
    waits for the first.

    Args:
        name: a data set of the catalogue, or with `source` any other name for an image folder of the user's own.
        source: folder of the original files; without it they are looked for, then downloaded (see data_prep.originals).
        force: write it again even if it is there.
        log: gets a line of text per step.
        workers: processes that decode and encode images; with more than one, a script that calls this needs the usual
            `if __name__ == "__main__":`.
        skip_unreadable: as many damaged images are left out, and listed in the manifest.
        corruptions: of a corrupted set, those to make; all by default.
        severities: of a corrupted set, those to make; all by default.
        executor: where the images of a corrupted set are made, `workers` at a time; by default processes started here.

    Raises:
        ValueError: unknown data set, wrong or missing originals, or a root that cannot be written or is full.
    """
    root = Path(root).absolute()
    source = Path(source).absolute() if source is not None else None
    dataset = _named(name, source, log)
    if dataset.reader != "corrupted" and (corruptions is not None or severities is not None):
        raise ValueError(f"{dataset.name} is no corrupted data set: it has no corruptions and severities to choose")
    try:
        root.mkdir(parents=True, exist_ok=True)
        if dataset.reader == "corrupted":
            from .corrupted import prepare_corrupted

            with _only_one(root, dataset.name, log):
                return prepare_corrupted(dataset, root, source, corruptions, severities, workers, log, force, executor)
        with _only_one(root, dataset.name, log):
            if not force and _is_ready(root, dataset, log):
                return root / dataset.name
            return _build(dataset, root, source, log, workers, skip_unreadable)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"cannot prepare {dataset.name} in {root}: {reason}; nothing was changed there") from error


def _named(name: str, source: Path | None, log: Callable[[str], None]) -> DatasetEntry:
    """The catalogue's entry, or that of a folder of the user's own."""
    key = key_of(name)
    if key in CATALOGUE or source is None:
        return entry(name)
    if not _OWN_NAME.fullmatch(key):
        raise ValueError(f'a data set cannot be named "{name}": allowed are letters, digits and underscores')
    if not source.is_dir():
        raise ValueError(f"the source folder {source} of {key} is not a folder")
    near = difflib.get_close_matches(key, CATALOGUE, n=1, cutoff=0.8)
    hint = f" (nearest: {near[0]})" if near else ""
    log(f"{key}: no data set of the catalogue{hint}, read as an image folder of your own")
    return own_entry(key, source)


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


def _build(
    dataset: DatasetEntry,
    root: Path,
    source: Path | None,
    log: Callable[[str], None],
    workers: int,
    skip_unreadable: int,
) -> Path:
    started = time.monotonic()
    for leftover in root.glob(f".{dataset.name}.preparing-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = locate(dataset, root, source, log)
    log(f"{dataset.name}: reading the originals in {folder}")
    originals = sources.read(dataset, folder)
    check_space(dataset, originals, root)
    staging = root / f".{dataset.name}.preparing-{os.getpid()}"
    try:
        staging.mkdir()
        writer = Writer(dataset, staging, log, workers, Faults(skip_unreadable))
        manifest = writer.write(originals, folder)
        final = root / dataset.name
        _publish(staging, final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    for path, reason in manifest["storage"].get("damaged", {}).items():
        log(f"{dataset.name}: {path} is damaged ({reason}), what could be decoded of it is stored")
    for path, reason in writer.faults.found.items():
        log(f"{dataset.name}: left out {path}: {reason}")
    counts = ", ".join(f"{split} {facts['count']:,}" for split, facts in manifest["splits"].items())
    log(f"{dataset.name}: prepared in {final} in {time.monotonic() - started:.1f} s ({counts})")
    return final


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
