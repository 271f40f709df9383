"""What every reader returns, and the checks they share."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..catalogue import DatasetEntry

_SOME = 3


@dataclass(frozen=True)
class Images:
    """One split of originals in official order: images_NHWC uint8, labels_N int64, further labels by name."""

    images_NHWC: NDArray[np.uint8]
    labels_N: NDArray[np.int64]
    extra_N: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def check(self, entry: DatasetEntry, split: str, expected: int) -> None:
        """Raises ValueError unless number, shape and labels are those of the catalogue."""
        found, shape = len(self.images_NHWC), tuple(self.images_NHWC.shape[1:])
        wanted = (entry.image_size, entry.image_size, entry.channels)
        if found != expected:
            raise ValueError(f"the {split} set of {entry.name} should hold {expected:,} images, found {found:,}")
        if shape != wanted:
            raise ValueError(f"images of the {split} set of {entry.name} should have shape {wanted}, found {shape}")
        for name, labels_N in {"label": self.labels_N, **self.extra_N}.items():
            classes = len(entry.classes_of(name))
            if len(labels_N) != found:
                raise ValueError(f"the {split} set of {entry.name} has {found:,} images but {len(labels_N):,} {name}s")
            if labels_N.min() < 0 or labels_N.max() >= classes:
                raise ValueError(
                    f"{name}s of the {split} set of {entry.name} should lie in 0..{classes - 1}, "
                    f"found {labels_N.min()}..{labels_N.max()}"
                )


@dataclass(frozen=True)
class ImageFiles:
    """One split of originals that are image files, in official order."""

    paths: tuple[Path, ...]
    labels_N: NDArray[np.int64]
    class_names: tuple[str, ...]
    """Of the labels of this split."""

    def check(self, entry: DatasetEntry, split: str, expected: int) -> None:
        """Raises ValueError unless there are as many files as the catalogue says, and all of them exist."""
        missing = [path for path in self.paths if not path.is_file()]
        if missing:
            raise ValueError(
                f"{len(missing):,} of {len(self.paths):,} images of the {split} set of {entry.name} are missing: "
                f"{some(missing)}; get them from {entry.origin}"
            )
        if len(self.paths) != expected:
            raise ValueError(
                f"the {split} set of {entry.name} should hold {expected:,} images, found {len(self.paths):,}; "
                f"get them all from {entry.origin}, or prepare these under a name of your own"
            )


@dataclass(frozen=True)
class Originals:
    """Both official splits, and the MD5 digests of the files they were read from."""

    train: Images | ImageFiles
    test: Images | ImageFiles
    digests: dict[str, str]
    validation_N: NDArray[np.int64] | None = None
    """Indices into `train` of the authors' own validation set."""


def checked_content(path: Path, content: bytes, expected: str) -> str:
    """The MD5 digest of `content`, which has to be `expected`.

    Raises:
        ValueError: it is another one.
    """
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the official file: its MD5 digest should be {expected}, found {found}; fetch it again"
        )
    return found


def content_digest(content: bytes) -> str:
    """The MD5 digest of a file for which no official one is known."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def some(things: Sequence[object]) -> str:
    """The first few of many, in words."""
    return ", ".join(map(str, things[:_SOME])) + (", ..." if len(things) > _SOME else "")


def renumbered(ids_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels 0, 1, ... by ascending id, and the id of each label."""
    ids_C, labels_N = np.unique(ids_N, return_inverse=True)
    return labels_N.astype(np.int64), ids_C
