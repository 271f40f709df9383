"""The stratified validation split."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from data_prep.subsets import stratified_split


def test_classes_keep_their_share_and_the_seed_decides() -> None:
    labels = np.repeat(np.arange(5), [40, 60, 80, 100, 120])
    train, validation = stratified_split(labels)
    assert sorted([*train, *validation]) == list(range(400))
    assert np.bincount(labels[validation]).tolist() == [6, 9, 12, 15, 18]
    assert np.all(np.diff(train) > 0) and np.all(np.diff(validation) > 0)
    assert np.array_equal(validation, stratified_split(labels)[1])
    assert not np.array_equal(validation, stratified_split(labels, seed=1)[1])


def test_it_is_the_split_of_the_papers_code() -> None:
    labels = np.arange(1000) % 7
    _, expected = train_test_split(np.arange(1000), test_size=0.15, random_state=1234, stratify=labels)
    assert np.array_equal(stratified_split(labels)[1], np.sort(expected))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"strictly between 0 and 1, found 1\.0"):
        stratified_split([0, 0, 1, 1], 1.0)
    with pytest.raises(ValueError, match="class 1 has one"):
        stratified_split([0, 0, 1])
