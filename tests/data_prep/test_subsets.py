"""Validation images by class, and validation classes."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from data_prep.subsets import class_order, stratified_split, validation_classes


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
    with pytest.raises(ValueError, match=r"share of 0\.15 needs more images: 10 of 5 classes"):
        stratified_split([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    with pytest.raises(ValueError, match="3 classes are too few"):
        class_order(3)


def test_validation_classes_are_those_of_the_paper() -> None:
    cars = [29, 33, 36, 39, 40, 44, 54, 55, 57, 61, 62, 63, 78, 85, 92]
    birds = [27, 33, 35, 39, 40, 42, 56, 59, 61, 63, 68, 81, 85, 94, 98]
    assert validation_classes(98).tolist() == cars and validation_classes(100).tolist() == birds
    products = validation_classes(11_318)
    assert products[:10].tolist() == [1, 2, 5, 6, 14, 18, 19, 25, 26, 43]
    assert len(products) == 1_698 and products.sum() == 9_654_213
    assert [class_order(classes)[1] for classes in (98, 100, 11_318)] == [83, 85, 9_620]
    order, trained = class_order(98)
    assert np.all(np.diff(order[:trained]) > 0) and order[trained:].tolist() == cars
