"""Which images belong to which split."""

import math

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
    if min(math.ceil(validation_share * len(labels_N)), math.floor((1 - validation_share) * len(labels_N))) < len(
        classes
    ):
        raise ValueError(
            f"a stratified split with a share of {validation_share:g} needs more images: "
            f"{len(labels_N):,} of {len(classes):,} classes do not give every class one on both sides"
        )
    from sklearn.model_selection import StratifiedShuffleSplit

    splitter = StratifiedShuffleSplit(n_splits=1, test_size=validation_share, random_state=seed)
    train, validation = next(splitter.split(labels_N, labels_N))
    return np.sort(train).astype(np.int64), np.sort(validation).astype(np.int64)


def validation_classes(num_classes: int) -> NDArray[np.int64]:
    """The classes, 15 % of them, that are held out of the training classes of an open set; ascending.

    The draw is that of the vMF paper's code: NumPy's legacy generator, seed 1234, without replacement.
    """
    generator = np.random.RandomState(SPLIT_SEED)
    return np.sort(generator.choice(num_classes, round(VALIDATION_SHARE * num_classes), replace=False)).astype(np.int64)


def class_order(num_classes: int) -> tuple[NDArray[np.int64], int]:
    """The order in which training classes of an open set are numbered, and how many of them are trained on.

    Those of training come first, so that their labels are 0, 1, ... by ascending id, as the paper's code has them; then
    come the held-out ones.

    Raises:
        ValueError: too few classes to hold one out.
    """
    held_out_C = validation_classes(num_classes)
    if len(held_out_C) == 0:
        raise ValueError(f"{num_classes} classes are too few to hold {VALIDATION_SHARE:.0%} of them out")
    trained_C = np.setdiff1d(np.arange(num_classes), held_out_C)
    return np.concatenate([trained_C, held_out_C]), len(trained_C)
