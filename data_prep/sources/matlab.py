"""Data sets whose labels, or images, are in MATLAB files: SVHN and Stanford Cars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..catalogue import DatasetEntry
from . import layout
from .base import Images, Originals, checked_content, content_digest
from .lists import split_by_class


def read_svhn(entry: DatasetEntry, folder: Path) -> Originals:
    """train_32x32.mat and test_32x32.mat: X of shape (32, 32, 3, N), y of shape (N, 1) in which 10 means 0."""
    place = layout.unpacked(entry, folder)
    digests: dict[str, str] = {}
    splits = []
    for name, expected in entry.files.items():
        path = place / name
        digests[str(path)] = checked_content(path, path.read_bytes(), expected)
        content = _load(path, ("X", "y"))
        images_NHWC = np.ascontiguousarray(np.transpose(content["X"], (3, 0, 1, 2)))
        labels_N = content["y"].reshape(-1).astype(np.int64)
        splits.append(Images(images_NHWC, np.where(labels_N == 10, 0, labels_N)))
    return Originals(splits[0], splits[1], digests)


def read_cars196(entry: DatasetEntry, folder: Path) -> Originals:
    """cars_annos.mat beside car_ims/, or the devkit beside cars_train/ and cars_test/; classes count from 1."""
    place = layout.unpacked(entry, folder)
    digests: dict[str, str] = {}

    def load(path: Path, key: str) -> Any:
        digests[str(path)] = content_digest(path.read_bytes())
        return _load(path, (key,))[key]

    paths: list[Path] = []
    ids: list[int] = []
    if (place / "cars_annos.mat").exists():
        annotations = load(place / "cars_annos.mat", "annotations")
        names = load(place / "cars_annos.mat", "class_names")
        paths = [place / str(row["relative_im_path"]) for row in annotations]
        ids = [int(row["class"]) for row in annotations]
    else:
        names = load(place / "devkit" / "cars_meta.mat", "class_names")
        for file, images in (("cars_train_annos.mat", "cars_train"), (_test_labels(entry, place), "cars_test")):
            annotations = load(place / "devkit" / file, "annotations")
            paths += [place / images / str(row["fname"]) for row in annotations]
            ids += [int(row["class"]) for row in annotations]
    if not ids or min(ids) < 1 or max(ids) > len(names):
        raise ValueError(f"the classes of {entry.name} in {place} should lie in 1..{len(names)}")
    name_of = {number: str(name) for number, name in enumerate(names, start=1)}
    train, test = split_by_class(paths, np.array(ids, np.int64), name_of, entry.num_classes // 2)
    return Originals(train, test, digests)


def _test_labels(entry: DatasetEntry, place: Path) -> Path:
    """The labels of the test images, which are not in the devkit's archive but beside it."""
    name = "cars_test_annos_withlabels.mat"
    for path in (place / "devkit" / name, place / name):
        if path.exists():
            return path
    raise ValueError(f"{name} of {entry.name} is missing in {place}; get it from {entry.origin}")


def _load(path: Path, keys: tuple[str, ...]) -> Mapping[str, Any]:
    from scipy.io import loadmat

    try:
        content: Mapping[str, Any] = loadmat(path, squeeze_me=True)
    except Exception as error:  # a damaged file raises nearly anything
        raise ValueError(f"{path} cannot be read as a MATLAB file: {error}") from error
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path} is not in the official format: it holds no {' and no '.join(missing)}")
    return content
