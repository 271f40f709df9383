"""Images in one folder per class: ImageNet and its parts, Tiny ImageNet, and folders of the user's own."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..catalogue import IMAGENET_CONSTANTS, DatasetEntry
from ..encoding import Unreadable, size_of
from ..subsets import stratified_split
from . import layout
from .base import ImageFiles, Originals, content_digest, some

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"])
_TEST_SHARE = 0.2
_LARGEST_RAW = 64
_GREY_CONSTANTS = ((0.5,), (0.5,))


def read_imagenet(entry: DatasetEntry, folder: Path) -> Originals:
    """train/WNID and val/WNID; of a part of ImageNet only its classes are taken, in the order of their WNIDs."""
    place = layout.unpacked(entry, folder)
    names = entry.class_names or class_folders(place / "train")
    if not entry.class_names and len(names) != entry.num_classes:
        raise ValueError(
            f"{place / 'train'} should hold {entry.num_classes:,} class folders of {entry.name}, found {len(names):,}"
        )
    for part in ("train", "val"):
        missing = [name for name in names if not (place / part / name).is_dir()]
        if missing:
            raise ValueError(
                f"{len(missing):,} of {len(names):,} class folders of {entry.name} are missing in {place / part}: "
                f"{some(missing)}; the originals are at {entry.origin}"
            )
    return Originals(gathered(place / "train", names), gathered(place / "val", names), {})


def read_tiny_imagenet(entry: DatasetEntry, folder: Path) -> Originals:
    """train/WNID/images, and val/images with the classes in val_annotations.txt; labels follow the sorted WNIDs."""
    place = layout.unpacked(entry, folder)
    digests: dict[str, str] = {}

    def lines(file: str) -> list[str]:
        content = (place / file).read_bytes()
        digests[str(place / file)] = content_digest(content)
        return content.decode("ascii", "replace").splitlines()

    names = tuple(sorted(line.strip() for line in lines("wnids.txt") if line.strip()))
    missing = [name for name in names if not (place / "train" / name).is_dir()]
    if missing or len(names) != entry.num_classes:
        raise ValueError(
            f"{place / 'train'} should hold {entry.num_classes} class folders of {entry.name}, "
            f"{len(names) - len(missing)} are there; get them from {entry.origin}"
        )
    number = {name: label for label, name in enumerate(names)}
    rows = [line.split("\t") for line in lines("val/val_annotations.txt") if line.strip()]
    if any(len(row) < 2 or row[1] not in number for row in rows):
        raise ValueError(f"{place / 'val/val_annotations.txt'} is not in the official format")
    test = ImageFiles(
        tuple(place / "val" / "images" / row[0] for row in rows),
        np.array([number[row[1]] for row in rows], np.int64),
        names,
    )
    return Originals(gathered(place / "train", names, "images"), test, digests)


def own_entry(name: str, folder: Path) -> DatasetEntry:
    """The entry of a folder of the user's own: classes from folder names, storage by the size of the images.

    Images of one square size up to 64 pixels are stored raw, grey if all of them are; all others as JPEG.

    Raises:
        ValueError: no class folders, no images, or class folders that differ between the splits.
    """
    parts = _parts(folder)
    names = class_folders(folder / parts["train"])
    for part in parts.values():
        found = class_folders(folder / part)
        if found != names:
            only = [f"only in {parts['train'] or folder}: {some(sorted(set(names) - set(found)))}"]
            only.append(f"only in {part}: {some(sorted(set(found) - set(names)))}")
            differences = "; ".join(line for line in only if not line.endswith(": "))
            raise ValueError(f"the class folders of {name} in {folder} do not match between its splits: {differences}")
    files = {part: gathered(folder / place, names).paths for part, place in parts.items()}
    size, grey = _common_size([path for paths in files.values() for path in paths])
    return DatasetEntry(
        name=name,
        title=f"{name}, from {folder.name}",
        reader="folders",
        class_names=names,
        channels=1 if grey else 3,
        image_size=size,
        train_count=0,
        test_count=0,
        licence="the user's own",
        origin=str(folder),
        normalisation=dict.fromkeys(("vmf", "dsf", "imagenet"), _GREY_CONSTANTS if grey else IMAGENET_CONSTANTS),
        storage="jpeg" if size is None else "raw",
        shorter_edge=None if size is not None else _OWN_EDGE,
        validation="official" if "validation" in parts else "stratified",
    )


_OWN_EDGE = 512


def read_own(entry: DatasetEntry, folder: Path) -> Originals:
    """Class folders, or train/, test/ and val/ with class folders in them.

    Of train, val and test the first two are `train_full`. val without test is the test set. Of class folders alone, a
    stratified fifth is the test set.
    """
    parts = _parts(folder)
    train = gathered(folder / parts["train"], entry.class_names)
    if "test" not in parts:
        kept, held_out = stratified_split(train.labels_N, _TEST_SHARE)
        return Originals(_chosen(train, kept), _chosen(train, held_out), {})
    test = gathered(folder / parts["test"], entry.class_names)
    if "validation" not in parts:
        return Originals(train, test, {})
    validation = gathered(folder / parts["validation"], entry.class_names)
    full = ImageFiles(
        train.paths + validation.paths, np.concatenate([train.labels_N, validation.labels_N]), train.class_names
    )
    return Originals(full, test, {}, np.arange(len(train.paths), len(full.paths)))


def _parts(folder: Path) -> dict[str, str]:
    """Which subfolder holds which split; class folders alone are all `train`."""
    if not (folder / "train").is_dir():
        return {"train": ""}
    val = next((name for name in ("val", "validation", "valid") if (folder / name).is_dir()), None)
    if (folder / "test").is_dir():
        return {"train": "train", "test": "test"} | ({"validation": val} if val else {})
    if val is None:
        raise ValueError(f"{folder} has a folder train but neither test nor val beside it")
    return {"train": "train", "test": val}


def _chosen(files: ImageFiles, indices: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> ImageFiles:
    return ImageFiles(tuple(files.paths[index] for index in indices), files.labels_N[indices], files.class_names)


def class_folders(folder: Path) -> tuple[str, ...]:
    """The sorted names of the folders in `folder`; hidden ones do not count."""
    with os.scandir(folder) as entries:
        return tuple(sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")))


def gathered(folder: Path, names: Sequence[str], below: str = "") -> ImageFiles:
    """All image files of the class folders `names`, by class and then by path.

    Raises:
        ValueError: a class folder holds no image.
    """
    paths: list[Path] = []
    labels: list[int] = []
    empty = []
    for label, name in enumerate(names):
        place = folder / name / below
        found = sorted(path for path in place.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
        if not found:
            empty.append(name)
        paths += found
        labels += [label] * len(found)
    if not names or not paths:
        raise ValueError(f"there are no class folders with images in {folder}")
    if empty:
        raise ValueError(f"{len(empty)} of {len(names)} class folders in {folder} hold no images: {some(empty)}")
    return ImageFiles(tuple(paths), np.array(labels, np.int64), tuple(names))


def _common_size(paths: Sequence[Path]) -> tuple[int | None, bool]:
    """(height and width, whether all are grey) if all images are of one small square size, else (None, False)."""
    size, all_grey = None, True
    for path in paths:
        try:
            height, width, grey = size_of(path)
        except Unreadable:
            continue  # named later, when it is to be stored
        if height != width or height > _LARGEST_RAW or size not in (None, height):
            return None, False
        size, all_grey = height, all_grey and grey
    return (size, all_grey) if size is not None else (None, False)
