"""Which images belong to which split."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

VALIDATION_SHARE = 0.15
SPLIT_SEED = 1234


def stratified_split(
    labels_N: ArrayLike, validation_share: float = VALIDATION_SHARE, seed: int = SPLIT_SEED
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Splits indices so that every class keeps its share: (train, validation), both ascending.

    The draw is scikit-learn's `StratifiedShuffleSplit`, as in the code of the vMF paper.

    Raises:
        ValueError: the share is not strictly between 0 and 1, or a class has fewer than two images.
    """
    if not 0 < validation_share < 1:
        raise ValueError(f"validation_share should lie strictly between 0 and 1, found {validation_share}")
    labels_N = np.asarray(labels_N)
    classes, counts = np.unique(labels_N, return_counts=True)
    if len(counts) == 0 or counts.min() < 2:
        fault = f"class {classes[counts.argmin()]} has one" if len(counts) else "there are none"
        raise ValueError(f"a stratified split needs at least two images of every class; {fault}")
    from sklearn.model_selection import StratifiedShuffleSplit

    splitter = StratifiedShuffleSplit(n_splits=1, test_size=validation_share, random_state=seed)
    train, validation = next(splitter.split(labels_N, labels_N))
    return np.sort(train).astype(np.int64), np.sort(validation).astype(np.int64)
