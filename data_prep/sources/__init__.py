"""Readers of original files: one module per format, each with `read(entry, folder)`."""

from pathlib import Path

from ..catalogue import DatasetEntry
from . import bundled, cifar, idx
from .base import Images, Originals

__all__ = ["Images", "Originals", "complete", "read", "wanted_files"]


def read(entry: DatasetEntry, folder: Path) -> Originals:
    """Reads and checks the originals of a data set from `folder`.

    Raises:
        ValueError: files are missing, changed, or hold other than the official images.
    """
    readers = {"idx": idx.read, "cifar": cifar.read, "bundled": bundled.read}
    originals = readers[entry.reader](entry, folder)
    for split, images, expected in (
        ("training", originals.train, entry.train_count),
        ("test", originals.test, entry.test_count),
    ):
        images.check(entry, split, expected)
    return originals


def complete(entry: DatasetEntry, folder: Path) -> bool:
    """Whether all original files are in `folder`; their content is not looked at."""
    if entry.reader == "idx":
        return all(idx.find(entry, folder, name) for name in entry.files)
    return all((cifar.batch_folder(entry, folder) / name).is_file() for name in entry.files)


def wanted_files(entry: DatasetEntry) -> str:
    """The original files, in words, for messages."""
    suffix = " (or the same with .gz)" if entry.reader == "idx" else ""
    return ", ".join(entry.files) + suffix
