"""Data sets whose text files list their images: CUB-200-2011, SOP, Food-101, Pets, FGVC-Aircraft and DTD."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..catalogue import DatasetEntry
from . import layout
from .base import ImageFiles, Originals, content_digest, renumbered


class _Lists:
    """The text files of one data set; remembers the digests of those it has read."""

    def __init__(self, entry: DatasetEntry, folder: Path) -> None:
        self.entry, self.folder = entry, layout.unpacked(entry, folder)
        self.digests: dict[str, str] = {}

    def rows(self, file: str, columns: int, skip: int = 0) -> list[list[str]]:
        """The lines of a file, each parted at white space into `columns`; the last one keeps its spaces."""
        path = self.folder / file
        content = path.read_bytes()
        self.digests[str(path)] = content_digest(content)
        rows = [line.split(None, columns - 1) for line in content.decode("utf-8", "replace").splitlines()[skip:]]
        rows = [[part.strip() for part in row] for row in rows if row]
        for number, row in enumerate(rows, start=skip + 1):
            if len(row) != columns:
                raise ValueError(
                    f"{path} is not in the official format: line {number} has {len(row)} columns, not {columns}"
                )
        if not rows:
            raise ValueError(f"{path} is empty")
        return rows

    def numbers(self, rows: list[list[str]], column: int) -> NDArray[np.int64]:
        """One column as integers."""
        try:
            return np.array([int(row[column]) for row in rows], np.int64)
        except ValueError as error:
            raise ValueError(
                f"a list of {self.entry.name} in {self.folder} is not in the official format: {error}"
            ) from None

    def labelled(self, images: Sequence[str], classes: Sequence[str], names: Sequence[str]) -> ImageFiles:
        """Files under images/ whose classes are numbered in the order of `names`."""
        number = {name: label for label, name in enumerate(names)}
        unknown = sorted(set(classes) - number.keys())
        if unknown:
            raise ValueError(f"the lists of {self.entry.name} in {self.folder} name the unknown class {unknown[0]}")
        labels_N = np.array([number[name] for name in classes], np.int64)
        return ImageFiles(tuple(self.folder / "images" / image for image in images), labels_N, tuple(names))


def split_by_class(
    paths: Sequence[Path], ids_N: NDArray[np.int64], names: dict[int, str], last_training_id: int
) -> tuple[ImageFiles, ImageFiles]:
    """Training and test images of disjoint classes, each numbered from 0 by ascending id."""

    def part(chosen_N: NDArray[np.int64]) -> ImageFiles:
        labels_N, ids_C = renumbered(ids_N[chosen_N])
        return ImageFiles(
            tuple(paths[index] for index in chosen_N), labels_N, tuple(names[id] for id in ids_C.tolist())
        )

    return part(np.flatnonzero(ids_N <= last_training_id)), part(np.flatnonzero(ids_N > last_training_id))


def read_cub200(entry: DatasetEntry, folder: Path) -> Originals:
    """images.txt (id, path), image_class_labels.txt (id, class from 1) and classes.txt (class, name)."""
    lists = _Lists(entry, folder)
    images, labels = lists.rows("images.txt", 2), lists.rows("image_class_labels.txt", 2)
    if [row[0] for row in images] != [row[0] for row in labels]:
        raise ValueError(f"images.txt and image_class_labels.txt in {lists.folder} do not list the same images")
    names = {int(number): name for number, name in lists.rows("classes.txt", 2)}
    ids_N = lists.numbers(labels, 1)
    unknown = set(ids_N.tolist()) - names.keys()
    if unknown:
        raise ValueError(f"image_class_labels.txt in {lists.folder} has the class {min(unknown)}, classes.txt does not")
    paths = [lists.folder / "images" / path for _, path in images]
    train, test = split_by_class(paths, ids_N, names, entry.num_classes // 2)
    return Originals(train, test, lists.digests)


def read_sop(entry: DatasetEntry, folder: Path) -> Originals:
    """Ebay_train.txt and Ebay_test.txt: a title line, then image id, class id, super class id and path."""
    lists = _Lists(entry, folder)

    def part(file: str) -> ImageFiles:
        rows = lists.rows(file, 4, skip=1)
        labels_N, ids_C = renumbered(lists.numbers(rows, 1))
        return ImageFiles(tuple(lists.folder / row[3] for row in rows), labels_N, tuple(map(str, ids_C.tolist())))

    return Originals(part("Ebay_train.txt"), part("Ebay_test.txt"), lists.digests)


def read_food101(entry: DatasetEntry, folder: Path) -> Originals:
    """meta/train.txt and meta/test.txt: class/image without the suffix."""
    lists = _Lists(entry, folder)
    parts = [[row[0] for row in lists.rows(f"meta/{part}.txt", 1)] for part in ("train", "test")]
    names = sorted({image.partition("/")[0] for image in parts[0]})
    train, test = (
        lists.labelled([f"{image}.jpg" for image in part], [image.partition("/")[0] for image in part], names)
        for part in parts
    )
    return Originals(train, test, lists.digests)


def read_pets(entry: DatasetEntry, folder: Path) -> Originals:
    """annotations/trainval.txt and test.txt: image, class from 1, species, breed of the species."""
    lists = _Lists(entry, folder)
    parts = [lists.rows(f"annotations/{part}.txt", 4) for part in ("trainval", "test")]
    name_of = {int(row[1]): row[0].rpartition("_")[0] for row in parts[0]}
    names = [name_of[number] for number in sorted(name_of)]
    train, test = (
        lists.labelled([f"{row[0]}.jpg" for row in part], [row[0].rpartition("_")[0] for row in part], names)
        for part in parts
    )
    return Originals(train, test, lists.digests)


def read_aircraft(entry: DatasetEntry, folder: Path) -> Originals:
    """images_variant_{trainval,val,test}.txt: image, then the variant, which may have spaces in it."""
    lists = _Lists(entry, folder)
    full, validation, test = (lists.rows(f"images_variant_{part}.txt", 2) for part in ("trainval", "val", "test"))
    names = sorted({variant for _, variant in full})
    held_out = {image for image, _ in validation}
    chosen_N = np.flatnonzero([image in held_out for image, _ in full])
    if len(chosen_N) != len(validation):
        raise ValueError(
            f"images_variant_val.txt in {lists.folder} lists images that images_variant_trainval.txt lacks"
        )
    train, tested = (
        lists.labelled([f"{image}.jpg" for image, _ in part], [variant for _, variant in part], names)
        for part in (full, test)
    )
    return Originals(train, tested, lists.digests, chosen_N)


def read_dtd(entry: DatasetEntry, folder: Path) -> Originals:
    """labels/{train,val,test}1.txt: class/image; `train_full` is the training images, then those of validation."""
    lists = _Lists(entry, folder)
    train, validation, test = (
        [row[0] for row in lists.rows(f"labels/{part}1.txt", 1)] for part in ("train", "val", "test")
    )
    names = sorted({image.partition("/")[0] for image in train})
    full, tested = (
        lists.labelled(part, [image.partition("/")[0] for image in part], names) for part in (train + validation, test)
    )
    return Originals(full, tested, lists.digests, np.arange(len(train), len(train) + len(validation)))
