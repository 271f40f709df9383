"""The "python version" of CIFAR-10 and CIFAR-100: pickles of Python 2, unpickled without running anything in them."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..catalogue import DatasetEntry
from .base import Images, Originals, checked_content

_FOLDERS = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
_LABEL_KEYS = {b"labels": "label", b"fine_labels": "label", b"coarse_labels": "coarse_label"}
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    """Knows lists, dicts, numbers, bytes and numpy arrays; a pickle that names anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read(entry: DatasetEntry, folder: Path) -> Originals:
    """Reads the official batches from `folder` or from the subfolder that the archive unpacks to.

    Raises:
        ValueError: a file is missing, not the official one, or not such a pickle.
    """
    place = batch_folder(entry, folder)
    missing = [name for name in entry.files if not (place / name).is_file()]
    if missing:
        raise ValueError(
            f"{', '.join(missing)} of {entry.name} missing in {place}; "
            f"unpack the official archive there ({entry.origin})"
        )
    digests: dict[str, str] = {}
    batches: dict[str, Images] = {}
    for name, expected in entry.files.items():
        path = place / name
        content = path.read_bytes()
        digests[str(path)] = checked_content(path, content, expected)
        batches[name] = parse(path, content)
    test_name = "test_batch" if "test_batch" in batches else "test"
    test = batches.pop(test_name)
    return Originals(_joined(list(batches.values())), test, digests)


def batch_folder(entry: DatasetEntry, folder: Path) -> Path:
    """`folder`, or the subfolder in it that the official archive unpacks to."""
    unpacked = folder / _FOLDERS[entry.name]
    return unpacked if unpacked.is_dir() else folder


def parse(path: Path, content: bytes) -> Images:
    """The images and labels of one batch file.

    Raises:
        ValueError: not a pickle of this format; nothing in it has been run.
    """
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        rows_ND = np.asarray(batch[b"data"], dtype=np.uint8)
        images_NHWC = rows_ND.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = {ours: np.asarray(batch[key], dtype=np.int64) for key, ours in _LABEL_KEYS.items() if key in batch}
        return Images(np.ascontiguousarray(images_NHWC), labels.pop("label"), labels)
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"{path} is not a CIFAR batch in the official format: {error!s}") from error


def _joined(batches: list[Images]) -> Images:
    return Images(
        np.concatenate([batch.images_NHWC for batch in batches]),
        np.concatenate([batch.labels_N for batch in batches]),
        {name: np.concatenate([batch.extra_N[name] for batch in batches]) for name in batches[0].extra_N},
    )
