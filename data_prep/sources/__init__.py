"""Readers of original files: one function `read(entry, folder)` per format."""

from collections.abc import Callable
from pathlib import Path

from ..catalogue import DatasetEntry
from . import bundled, cifar, folders, idx, layout, lists, matlab
from .base import ImageFiles, Images, Originals

__all__ = ["ImageFiles", "Images", "Originals", "complete", "read", "wanted_files"]

_READERS: dict[str, Callable[[DatasetEntry, Path], Originals]] = {
    "idx": idx.read,
    "cifar": cifar.read,
    "bundled": bundled.read,
    "svhn": matlab.read_svhn,
    "cars196": matlab.read_cars196,
    "cub200": lists.read_cub200,
    "sop": lists.read_sop,
    "food101": lists.read_food101,
    "pets": lists.read_pets,
    "aircraft": lists.read_aircraft,
    "dtd": lists.read_dtd,
    "imagenet": folders.read_imagenet,
    "tiny_imagenet": folders.read_tiny_imagenet,
    "folders": folders.read_own,
}


def read(entry: DatasetEntry, folder: Path) -> Originals:
    """Reads and checks the originals of a data set from `folder`; image files are listed, not opened.

    Raises:
        ValueError: files are missing, changed, or hold other than the official images.
    """
    originals = _READERS[entry.reader](entry, folder)
    if entry.reader != "folders":
        originals.train.check(entry, "training", entry.train_count)
        originals.test.check(entry, "test", entry.test_count)
    return originals


def complete(entry: DatasetEntry, folder: Path) -> bool:
    """Whether the original files are in `folder`; their content is not looked at."""
    if entry.reader == "idx":
        return all(idx.find(entry, folder, name) for name in entry.files)
    if entry.reader == "cifar":
        return all((cifar.batch_folder(entry, folder) / name).is_file() for name in entry.files)
    return layout.find(entry, folder) is not None


def wanted_files(entry: DatasetEntry) -> str:
    """The original files, in words, for messages."""
    if entry.reader in layout.LAYOUTS:
        return layout.wanted(entry)
    suffix = " (or the same with .gz)" if entry.reader == "idx" else ""
    return ", ".join(entry.files) + suffix
