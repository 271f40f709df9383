"""The files of a data set: images of both official splits, index lists, and the manifest that vouches for them."""

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beton import digest, write_beton
from .catalogue import CATALOGUE, DatasetEntry
from .encoding import QUALITY, Encoded, Faults, Unreadable, as_jpeg, as_pixels, each
from .prepared import FORMAT, MANIFEST
from .sources import ImageFiles, Images, Originals
from .subsets import SPLIT_SEED, VALIDATION_SHARE, class_order, stratified_split

_TRAIN, _TEST = "train_full.beton", "test.beton"
_SECONDS_BETWEEN_NEWS = 10.0
_PAGE = 1 << 23
_SAMPLED, _MARGIN = 40, 1.2
_DRAWS = {
    "stratified": "sklearn StratifiedShuffleSplit",
    "classes": "numpy RandomState.choice of classes, without replacement",
    "official": "the authors' own",
}


_Stored = tuple[NDArray[np.int64], int, dict[str, str]]


@dataclass(frozen=True)
class Written:
    """One file that was written."""

    file: str
    labels_N: NDArray[np.int64]
    class_names: tuple[str, ...]
    kept_N: NDArray[np.int64]
    """Indices into the originals of the images that are stored."""
    passed_through: int
    """Images whose original bytes are stored."""
    damaged: dict[str, str]
    """Path of each image that is stored as well as it could be decoded -> what is wrong with the file."""


@dataclass(frozen=True)
class Writer:
    """Writes one data set into an empty folder."""

    dataset: DatasetEntry
    folder: Path
    log: Callable[[str], None]
    workers: int
    faults: Faults

    def write(self, originals: Originals, source: Path) -> dict[str, Any]:
        """Writes everything, the manifest last, and returns it.

        Raises:
            ValueError: unreadable images, or too few for the splits.
        """
        train = originals.train
        if isinstance(train, ImageFiles) and self.dataset.validation == "classes":
            order_C, _ = class_order(len(train.class_names))
            names = tuple(train.class_names[label] for label in order_C)
            train = ImageFiles(train.paths, np.argsort(order_C)[train.labels_N], names)
        written, tested = self._write_images(_TRAIN, train), self._write_images(_TEST, originals.test)
        indices = self._parts(written, originals)
        for split, chosen in indices.items():
            with (self.folder / f"{split}_indices.npy").open("wb") as file:
                np.save(file, chosen, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        manifest = self._manifest(written, tested, indices, originals, source)
        _write_durably(self.folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        return manifest

    def _write_images(self, file: str, images: Images | ImageFiles) -> Written:
        news = _progress(f"{self.dataset.name}: writing {file}", len(images.labels_N), self.log)
        if isinstance(images, Images):
            write_beton(self.folder / file, images.images_NHWC, images.labels_N, images.extra_N, news)
            everything = np.arange(len(images.labels_N))
            return Written(file, images.labels_N, self.dataset.class_names, everything, 0, {})
        write = self._write_raw if self.dataset.storage == "raw" else self._write_jpegs
        kept_N, passed_through, damaged = write(self.folder / file, images, news)
        return Written(file, images.labels_N[kept_N], images.class_names, kept_N, passed_through, damaged)

    def _write_jpegs(self, path: Path, files: ImageFiles, news: Callable[[int], None]) -> _Stored:
        from .beton_writer import write_jpeg_beton

        kept: list[int] = []
        damaged: dict[str, str] = {}
        passed_through = 0

        def encoded() -> Generator[tuple[bytes, int, int] | None]:
            nonlocal passed_through
            encode = partial(as_jpeg, shorter_edge=self.dataset.shorter_edge)
            for index, image in enumerate(each(encode, files.paths, self.workers, self.faults)):
                if image is None:
                    yield None
                    continue
                kept.append(index)
                passed_through += image.original
                if image.damage:
                    damaged[str(files.paths[index])] = image.damage
                yield image.content, image.height, image.width

        with closing(encoded()) as images:
            write_jpeg_beton(path, images, files.labels_N, news=news)
        return np.array(kept, np.int64), passed_through, damaged

    def _write_raw(self, path: Path, files: ImageFiles, news: Callable[[int], None]) -> _Stored:
        size, channels = self.dataset.image_size, self.dataset.channels
        assert size is not None
        images_NHWC = np.empty((len(files.paths), size, size, channels), np.uint8)
        kept: list[int] = []
        decode = partial(as_pixels, size=size, channels=channels)
        for index, image in enumerate(each(decode, files.paths, self.workers, self.faults)):
            news(index)
            if image is not None:
                images_NHWC[len(kept)] = image
                kept.append(index)
        write_beton(path, images_NHWC[: len(kept)], files.labels_N[kept])
        return np.array(kept, np.int64), 0, {}

    def _parts(self, written: Written, originals: Originals) -> dict[str, NDArray[np.int64]]:
        """Indices of `train` and `validation` into the file of `train_full`."""
        if self.dataset.validation == "stratified":
            train, validation = stratified_split(written.labels_N)
            return {"train": train, "validation": validation}
        if self.dataset.validation == "classes":
            held_out_N = written.labels_N >= class_order(len(written.class_names))[1]
        else:
            assert originals.validation_N is not None
            held_out_N = np.isin(written.kept_N, originals.validation_N)
        return {"train": np.flatnonzero(~held_out_N), "validation": np.flatnonzero(held_out_N)}

    def _manifest(
        self,
        written: Written,
        tested: Written,
        indices: dict[str, NDArray[np.int64]],
        originals: Originals,
        source: Path,
    ) -> dict[str, Any]:
        dataset, names = self.dataset, written.class_names

        def facts(part: Written, chosen: NDArray[np.int64] | None, split: str) -> dict[str, Any]:
            labels_N = part.labels_N if chosen is None else part.labels_N[chosen]
            classes = part.class_names
            if split == "train" and dataset.validation == "classes":
                classes = classes[: class_order(len(classes))[1]]
            return {
                "file": part.file,
                "indices": None if chosen is None else f"{split}_indices.npy",
                "count": len(labels_N),
                "per_class": np.bincount(labels_N, minlength=len(classes)).tolist(),
                **({} if classes == names else {"class_names": list(classes)}),
            }

        return {
            "format": FORMAT,
            "name": dataset.name,
            "title": dataset.title,
            "licence": dataset.licence,
            "origin": dataset.origin,
            "image_shape": None if dataset.image_size is None else list(dataset.image_shape),
            "class_names": list(names),
            "extra_labels": {name: list(classes) for name, classes in dataset.extra_labels.items()},
            "source": {"folder": str(source), "md5": originals.digests},
            "storage": self._storage(written, tested),
            "unreadable": self.faults.found,
            "validation": {"share": VALIDATION_SHARE, "seed": SPLIT_SEED, "draw": _DRAWS[dataset.validation]},
            "splits": {
                **{split: facts(written, chosen, split) for split, chosen in indices.items()},
                "train_full": facts(written, None, "train_full"),
                "test": facts(tested, None, "test"),
            },
            **({} if dataset.name in CATALOGUE else {"own": _own(dataset)}),
            "files": {
                path.name: {"bytes": path.stat().st_size, "sha256": digest(path)}
                for path in sorted(self.folder.iterdir())
            },
            "versions": {
                "python": platform.python_version(),
                **{package: version(package) for package in ("ffcv", "numpy", "pillow", "scikit-learn")},
            },
        }

    def _storage(self, *parts: Written) -> dict[str, Any]:
        if self.dataset.storage == "raw":
            return {"kind": "raw"}
        passed_through, total = sum(part.passed_through for part in parts), sum(len(part.kept_N) for part in parts)
        return {
            "kind": "jpeg",
            "shorter_edge": self.dataset.shorter_edge,
            "original_bytes": passed_through,
            "encoded_anew": total - passed_through,
            "quality_of_those": QUALITY,
            "damaged": {path: reason for part in parts for path, reason in part.damaged.items()},
        }


def _own(dataset: DatasetEntry) -> dict[str, Any]:
    """What the catalogue would say of a data set of the user's own."""
    return {
        "channels": dataset.channels,
        "image_size": dataset.image_size,
        "storage": dataset.storage,
        "shorter_edge": dataset.shorter_edge,
        "validation": dataset.validation,
        "normalisation": dict(dataset.normalisation),
    }


def check_space(dataset: DatasetEntry, originals: Originals, root: Path) -> None:
    """Raises ValueError unless there is room for the data set; the size of JPEG sets is judged by a sample."""
    needed = sum(_bytes_of(dataset, images) for images in (originals.train, originals.test)) + 4 * _PAGE
    free = shutil.disk_usage(root).free
    if free < needed:
        raise ValueError(
            f"not enough space in {root} for {dataset.name}: "
            f"it needs {needed / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free"
        )


def _bytes_of(dataset: DatasetEntry, images: Images | ImageFiles) -> int:
    if isinstance(images, Images):
        return images.images_NHWC.nbytes + 64 * len(images.labels_N)
    if dataset.image_size is not None:
        return len(images.paths) * (dataset.channels * dataset.image_size**2 + 64)
    sample = images.paths[:: max(1, len(images.paths) // _SAMPLED)]
    sizes = [len(encoded.content) for path in sample if (encoded := _tried(path, dataset.shorter_edge)) is not None]
    return int(_MARGIN * len(images.paths) * sum(sizes) / max(1, len(sizes)))


def _tried(path: Path, shorter_edge: int | None) -> Encoded | None:
    try:
        return as_jpeg(path, shorter_edge)
    except Unreadable:
        return None


def _progress(what: str, total: int, log: Callable[[str], None]) -> Callable[[int], None]:
    last = started = time.monotonic()
    log(f"{what} ({total:,} images)")

    def news(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _SECONDS_BETWEEN_NEWS and done:
            last = now
            left = (now - started) * (total - done) / done
            log(f"{what}: {done:,} of {total:,} images, {left:,.0f} s left")

    return news


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
