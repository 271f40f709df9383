"""Where the images of a corrupted data set come from: the official release, or the clean test images.

Shapes: N images of one .beton file, H height, W width, C = 3 channels (RGB).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ..corruptions import corrupt
from ..dataset_entry import DatasetEntry
from ..prepared import Split
from .constants import CORRUPTIONS, SEVERITIES

JPEG_QUALITY = 85
SEED = 0
_EDGE, _SIDE = 256, 224
"""As in the release: resized to this shorter edge, then cut to a square of this side."""

Encoded = tuple[bytes, int, int]
"""A JPEG file, its height and its width."""


class Job(NamedTuple):
    """One .beton file of a corrupted data set."""

    corruption: str
    severity: int

    @property
    def split(self) -> str:
        return f"{self.corruption}_{self.severity}"


def find_release(dataset: DatasetEntry, source: Path, jobs: Sequence[Job]) -> "ReleasedArrays | ReleasedTree":
    """The official release in `source`, or in the one folder below it.

    Raises:
        ValueError: it is not there, or what is wanted of it is missing or not as published.
    """
    if not source.is_dir():
        raise ValueError(f"the source folder {source} of {dataset.name} is not a folder")
    if dataset.storage == "jpeg":
        return ReleasedTree(dataset, source, jobs)
    folders = [source, *sorted(path for path in source.iterdir() if path.is_dir())]
    for folder in folders:
        if (folder / "labels.npy").is_file():
            return ReleasedArrays(dataset, folder, jobs)
    raise ValueError(
        f"{source} does not hold the release of {dataset.title}: there is no labels.npy (needed: labels.npy and "
        f"CORRUPTION.npy, {dataset.origin}); leave --source out to make the images from prepared {dataset.clean}"
    )


class ReleasedArrays:
    """CIFAR-C as released: one array per corruption, severity 1 first, and the labels."""

    def __init__(self, dataset: DatasetEntry, folder: Path, jobs: Sequence[Job]) -> None:
        self.folder, self.count = folder, dataset.test_count
        self.class_names = dataset.class_names
        names = list(dict.fromkeys(job.corruption for job in jobs))
        missing = [f"{name}.npy" for name in names if not (folder / f"{name}.npy").is_file()]
        if missing:
            raise ValueError(f"{folder} lacks {len(missing)} of the {len(names)} wanted arrays: {', '.join(missing)}")
        total = len(SEVERITIES) * self.count
        side = dataset.image_size
        for name in names:
            images = self._load(f"{name}.npy")
            if images.shape != (total, side, side, dataset.channels) or images.dtype != np.uint8:
                raise ValueError(
                    f"{folder / name}.npy should hold {total:,} uint8 images of {side} x {side} x {dataset.channels}, "
                    f"found {images.dtype} of shape {images.shape}"
                )
        labels = np.asarray(self._load("labels.npy")).astype(np.int64)
        if labels.shape != (total,) or (labels.reshape(len(SEVERITIES), -1) != labels[: self.count]).any():
            raise ValueError(f"{folder / 'labels.npy'} should hold the same {self.count:,} labels five times")
        if labels.min() < 0 or labels.max() >= dataset.num_classes:
            raise ValueError(
                f"{folder / 'labels.npy'} should hold labels in 0..{dataset.num_classes - 1}, "
                f"found {labels.min()}..{labels.max()}"
            )
        self.labels_N = labels[: self.count]

    def facts(self) -> dict[str, object]:
        return {"made": "from the official release"}

    def images(self, job: Job) -> NDArray[np.uint8]:
        """All images of a corruption and severity: (N, H, W, C)."""
        start = (job.severity - 1) * self.count
        return np.ascontiguousarray(self._load(f"{job.corruption}.npy")[start : start + self.count])

    def _load(self, name: str) -> NDArray[np.uint8]:
        try:
            array: NDArray[np.uint8] = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"{self.folder / name} cannot be read as an array: {error}") from error
        return array


class ReleasedTree:
    """ImageNet-C as released: CORRUPTION/SEVERITY/WNID/*.JPEG, or a level deeper in the folder of its archive."""

    def __init__(self, dataset: DatasetEntry, source: Path, jobs: Sequence[Job]) -> None:
        self.folder, self.count = source, dataset.test_count
        names = list(dict.fromkeys(job.corruption for job in jobs))
        found = {name: next(iter(sorted((*source.glob(name), *source.glob(f"*/{name}")))), None) for name in names}
        missing = [name for name, folder in found.items() if folder is None]
        if missing:
            raise ValueError(
                f"{source} lacks {len(missing)} of the {len(names)} wanted folders of {dataset.title}: "
                f"{', '.join(missing)} (needed: CORRUPTION/SEVERITY/WNID/*.JPEG, {dataset.origin}); "
                f"leave --source out to make the images from prepared {dataset.clean}"
            )
        self._found = {name: folder for name, folder in found.items() if folder is not None}
        self.class_names = dataset.class_names or self._folders(jobs[0])
        if len(self.class_names) != dataset.num_classes:
            raise ValueError(f"{source} should hold {dataset.num_classes:,} classes, found {len(self.class_names):,}")
        listed = {job: self._paths(job) for job in jobs}
        for job, (paths, _) in listed.items():
            if len(paths) != self.count:
                raise ValueError(
                    f"{self._found[job.corruption] / str(job.severity)} should hold {self.count:,} images of the "
                    f"classes of {dataset.name}, found {len(paths):,}"
                )
        self.labels_N = listed[jobs[0]][1]

    def facts(self) -> dict[str, object]:
        return {"made": "from the official release, JPEG files as they are"}

    def encoded(self, job: Job) -> Iterator[Encoded]:
        """The JPEG files of a corruption and severity, class by class, byte for byte."""
        for path in self._paths(job)[0]:
            content = path.read_bytes()
            try:
                with Image.open(BytesIO(content)) as image:
                    (width, height), kind = image.size, image.format
            except (UnidentifiedImageError, OSError) as error:
                raise ValueError(f"{path} is not an image") from error
            if kind != "JPEG":
                raise ValueError(f"{path} should be a JPEG file, found {kind}")
            yield content, height, width

    def _paths(self, job: Job) -> tuple[list[Path], NDArray[np.int64]]:
        folder = self._found[job.corruption] / str(job.severity)
        paths, labels = [], []
        for label, wnid in enumerate(self.class_names):
            of_class = sorted(path for path in (folder / wnid).glob("*") if path.suffix.lower() in (".jpeg", ".jpg"))
            if not of_class:
                raise ValueError(f"{folder} has no images of class {wnid}")
            paths += of_class
            labels += [label] * len(of_class)
        return paths, np.array(labels, np.int64)

    def _folders(self, job: Job) -> tuple[str, ...]:
        folder = self._found[job.corruption] / str(job.severity)
        return tuple(sorted(path.name for path in folder.glob("*") if path.is_dir()))


@dataclass(frozen=True)
class Chunk:
    """A few images in a row of the clean test set, and what is to become of them."""

    path: Path
    """The .beton file of the clean images."""
    first: int
    places_B3: NDArray[np.int64]
    """Start and length of each image in the file in bytes, and its side in pixels if it is raw."""
    job: Job
    jpeg: bool


class CleanImages:
    """The prepared clean test set, as places in its file: what a worker process needs to read it."""

    def __init__(self, split: Split) -> None:
        from ..ffcv_import import import_ffcv

        import_ffcv()
        from ffcv.reader import Reader

        reader = Reader(str(split.path))
        rows = reader.metadata
        image, label = (f"f{reader.field_names.index(name)}" for name in ("image", "label"))
        indices = split.indices if split.indices is not None else np.arange(len(rows))
        sizes = dict(zip(reader.alloc_table["ptr"].tolist(), reader.alloc_table["size"].tolist(), strict=True))
        starts = rows[image]["data_ptr"][indices].astype(np.int64)
        lengths = np.array([sizes[start] for start in starts.tolist()], np.int64)
        self.jpeg = split.entry.storage == "jpeg"
        self.places_N3 = np.stack([starts, lengths, rows[image]["height"][indices].astype(np.int64)], axis=1)
        self.labels_N = rows[label][indices].astype(np.int64).reshape(-1)
        self.class_names = tuple(split.manifest["class_names"])
        self.count, self.path, self.folder = len(self.labels_N), split.path, split.path.parent
        self._digest = split.manifest["files"][split.path.name]["sha256"]

    def facts(self) -> dict[str, object]:
        facts = {
            "made": f"here from {self.folder.name}/{self.path.name}",
            "clean_sha256": self._digest,
            "strengths": "ImageNet-C" if self.jpeg else "CIFAR-C",
            "seed": SEED,
        }
        if self.jpeg:
            facts["geometry"] = f"shorter edge resized to {_EDGE}, centre {_SIDE} x {_SIDE}"
            facts["jpeg_quality"] = JPEG_QUALITY
        return facts

    def chunks(self, job: Job, size: int) -> Iterator[Chunk]:
        for first in range(0, self.count, size):
            yield Chunk(self.path, first, self.places_N3[first : first + size], job, self.jpeg)


def corrupt_chunk(chunk: Chunk) -> NDArray[np.uint8] | list[Encoded]:
    """The corrupted images of a chunk, encoded as the release's if the clean ones are JPEG files."""
    name, severity = chunk.job
    assert name in CORRUPTIONS
    table = "imagenet" if chunk.jpeg else "cifar"
    results = []
    with chunk.path.open("rb") as file:
        for offset, (start, length, side) in enumerate(chunk.places_B3.tolist()):
            file.seek(start)
            content = file.read(length)
            image = _squared(content) if chunk.jpeg else np.frombuffer(content, np.uint8).reshape(side, -1, 3)
            results.append(corrupt(image, name, severity, table, (SEED, chunk.first + offset)))
    return [_encoded(image) for image in results] if chunk.jpeg else np.stack(results)


def _squared(content: bytes) -> NDArray[np.uint8]:
    image = Image.open(BytesIO(content)).convert("RGB")
    shorter = min(image.size)
    width, height = (_EDGE if side == shorter else int(_EDGE * side / shorter) for side in image.size)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - _SIDE) / 2), round((height - _SIDE) / 2)
    return np.array(image.crop((left, top, left + _SIDE, top + _SIDE)))


def _encoded(image_HWC: NDArray[np.uint8]) -> Encoded:
    file = BytesIO()
    Image.fromarray(image_HWC).save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return file.getvalue(), image_HWC.shape[0], image_HWC.shape[1]
