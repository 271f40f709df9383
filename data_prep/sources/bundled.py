"""The small real data set that scikit-learn carries: 1,797 handwritten digits of 8 x 8 pixels."""

import hashlib
from pathlib import Path

import numpy as np

from ..catalogue import DatasetEntry
from ..subsets import stratified_split
from .base import Images, Originals

_TEST_SHARE = 0.2


def read(entry: DatasetEntry, folder: Path) -> Originals:
    """Reads the digits; there is no official test set, so a stratified fifth is set aside. `folder` is not used."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images_NHWC = np.rint(digits.images[..., None] * (255 / 16)).astype(np.uint8)
    labels_N = digits.target.astype(np.int64)
    train, test = stratified_split(labels_N, _TEST_SHARE)
    digest = hashlib.md5(images_NHWC.tobytes() + labels_N.tobytes(), usedforsecurity=False).hexdigest()
    return Originals(
        Images(images_NHWC[train], labels_N[train]),
        Images(images_NHWC[test], labels_N[test]),
        {"sklearn.datasets.load_digits": digest},
    )
