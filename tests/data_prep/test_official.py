"""Every official format, from small originals to splits."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data_prep import catalogue, originals, sources
from data_prep.catalogue import DatasetEntry
from data_prep.class_names import IMAGENET100
from data_prep.prepare import open_split, prepare
from data_prep.sources import ImageFiles, Images

from . import official
from .test_beton import stored_images


def silent(line: str) -> None:
    pass


def prepared(monkeypatch: pytest.MonkeyPatch, dataset: DatasetEntry, source: Path, root: Path) -> Path:
    monkeypatch.setitem(catalogue.CATALOGUE, dataset.name, dataset)
    return prepare(dataset.name, root, source, log=silent)


@pytest.mark.parametrize("name", official.FORMATS)
def test_originals_become_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    dataset = official.FORMATS[name](tmp_path / "source")
    folder = prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
    train, validation, full, test = (open_split(tmp_path, name, split) for split in catalogue.SPLITS)
    assert full.samples == dataset.train_count and test.samples == dataset.test_count
    assert train.samples + validation.samples == full.samples and validation.samples > 0
    found = sources.read(dataset, tmp_path / "source")
    assert isinstance(found.train, ImageFiles) and isinstance(found.test, ImageFiles)
    for part, files in ((full, found.train), (test, found.test)):
        contents, labels = stored_images(part.path)
        assert contents == [path.read_bytes() for path in files.paths]  # the very bytes, in official order
        names = [part.entry.class_names[label] for label in labels]
        assert names == [files.class_names[label] for label in files.labels_N]
        assert part.entry.num_classes == max(labels) + 1
    manifest = full.manifest
    assert manifest["storage"]["original_bytes"] == full.samples + test.samples
    assert folder == tmp_path / name and manifest["source"]["folder"].startswith(str(tmp_path / "source"))


@pytest.mark.parametrize("make", [official.cars196, official.cub200, official.sop])
def test_classes_are_parted_and_training_labels_are_consecutive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], DatasetEntry]
) -> None:
    dataset = make(tmp_path / "source")
    prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
    train, validation, full, test = (open_split(tmp_path, dataset.name, split) for split in catalogue.SPLITS)
    _, labels = stored_images(full.path)
    classes = full.entry.num_classes
    held_out = round(0.15 * classes)
    assert set(labels[train.indices]) == set(range(classes - held_out))
    assert set(labels[validation.indices]) == set(range(classes - held_out, classes))
    assert train.entry.class_names == full.entry.class_names[:-held_out]
    assert not set(test.entry.class_names) & set(full.entry.class_names)
    drawn = np.random.RandomState(1234).choice(classes, held_out, replace=False)
    found = sources.read(dataset, tmp_path / "source")
    assert isinstance(found.train, ImageFiles)
    expected = np.flatnonzero(np.isin(found.train.labels_N, drawn))
    assert np.array_equal(validation.indices, expected)
    order = np.setdiff1d(np.arange(classes), drawn)  # labels by sorted unique id, as the paper's code has them
    sorted_ids = np.searchsorted(order, found.train.labels_N[train.indices])
    assert np.array_equal(labels[train.indices], sorted_ids)


def test_svhn_has_its_zeros_and_its_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.io import loadmat

    dataset = official.svhn(tmp_path / "source")
    found = sources.read(dataset, tmp_path / "source")
    content = loadmat(tmp_path / "source" / "train_32x32.mat")
    assert isinstance(found.train, Images)
    assert np.array_equal(found.train.images_NHWC[7], content["X"][:, :, :, 7])
    assert found.train.labels_N[:11].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
    assert open_split(tmp_path, "svhn", "validation").samples == 11
    with pytest.raises(ValueError, match="not the official file"):
        sources.read(dataclasses.replace(dataset, files={"train_32x32.mat": "0" * 32}), tmp_path / "source")


def test_the_devkit_layout_of_cars_is_read_too(tmp_path: Path) -> None:
    for devkit in (False, True):
        dataset = official.cars196(tmp_path / str(devkit), devkit)
        found = sources.read(dataset, tmp_path / str(devkit))
        assert isinstance(found.train, ImageFiles)
        assert np.bincount(found.train.labels_N).tolist() == [3] * 10
        assert found.train.class_names[1] == "Make 2 Coupe 2012"
    (tmp_path / "True" / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(ValueError, match=r"cars_test_annos_withlabels\.mat of cars196 is missing"):
        sources.read(dataset, tmp_path / "True")


def test_tiny_imagenet_is_stored_raw_with_grey_images_in_colour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = official.tiny_imagenet(tmp_path / "source")
    prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
    test = open_split(tmp_path, "tiny_imagenet", "test")
    assert test.entry.class_names == official.WNIDS and test.manifest["image_shape"] == [3, 64, 64]
    assert stored_images(test.path)[1].tolist() == [0, 1, 2, 0, 1, 2]


def test_a_part_of_imagenet_takes_only_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = official.imagenet(tmp_path / "source", "imagenet100")
    prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
    assert open_split(tmp_path, "imagenet100", "train_full").samples == 24
    shutil.rmtree(tmp_path / "source" / "val" / "n02102040")
    with pytest.raises(ValueError, match=r"1 of 3 class folders of imagenet100 are missing in .*val: n02102040"):
        sources.read(dataset, tmp_path / "source")
    assert len(IMAGENET100) == 100 and list(IMAGENET100) == sorted(IMAGENET100)


def test_authors_own_validation_sets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (official.aircraft, official.dtd):
        dataset = make(tmp_path / "source")
        prepared(monkeypatch, dataset, tmp_path / "source", tmp_path)
        assert open_split(tmp_path, dataset.name, "validation").samples == 6
    indices = open_split(tmp_path, "aircraft", "validation").indices
    assert indices is not None and indices.tolist() == sorted(indices.tolist())
    names = open_split(tmp_path, "aircraft", "test").entry.class_names
    assert names == ("707-320", "DHC-8 100", "F-16A/B")


@pytest.mark.parametrize("name", official.FORMATS)
def test_missing_originals_are_counted_and_named(tmp_path: Path, name: str) -> None:
    dataset = official.FORMATS[name](tmp_path / "source")
    found = sources.read(dataset, tmp_path / "source")
    assert isinstance(found.train, ImageFiles)
    for path in found.train.paths[:5]:
        path.unlink()
    with pytest.raises(ValueError) as caught:
        sources.read(dataset, tmp_path / "source")
    listed = f"5 of {dataset.train_count} images of the training set of {name} are missing: {found.train.paths[0]},"
    counted = f"should hold {dataset.train_count} images, found {dataset.train_count - 5}; get them all from"
    assert (counted if name == "imagenet" else listed) in str(caught.value)
    assert dataset.origin in str(caught.value)
    with pytest.raises(ValueError, match=rf"of {name} missing in .*; get the originals from"):
        sources.read(dataset, tmp_path / "nowhere")


def test_lists_in_another_format_are_named(tmp_path: Path) -> None:
    dataset = official.cub200(tmp_path)
    labels = tmp_path / "CUB_200_2011" / "image_class_labels.txt"
    rows = labels.read_text().splitlines()
    for changed, fault in (
        (rows[:-1], "do not list the same images"),
        ([*rows[:-1], "80"], r"image_class_labels\.txt is not in the official format: line 80 has 1 columns, not 2"),
        ([*rows[:-1], "80 x"], "not in the official format"),
        ([*rows[:-1], "80 999"], "has the class 999"),
        ([], r"image_class_labels\.txt is empty"),
    ):
        labels.write_text("\n".join(changed))
        with pytest.raises(ValueError, match=fault):
            sources.read(dataset, tmp_path)
    (tmp_path / "svhn").mkdir()
    svhn = official.svhn(tmp_path / "svhn")
    (tmp_path / "svhn" / "test_32x32.mat").unlink()
    with pytest.raises(ValueError, match=r"test_32x32\.mat of svhn missing"):
        sources.read(svhn, tmp_path / "svhn")


def test_originals_that_nothing_downloads_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"cub200 are not on this machine.*--source DIR \(needed: images\.txt"):
        prepare("cub200", tmp_path, log=silent)
    dataset = official.cub200(tmp_path / "originals" / "cub200")
    monkeypatch.setitem(catalogue.CATALOGUE, "cub200", dataset)
    prepare("cub200", tmp_path, log=silent)  # found where downloads would be
    assert open_split(tmp_path, "cub200", "test").samples == 40


def test_what_downloads_originals_exists() -> None:
    from torchvision import datasets

    for name, (downloader, _) in originals._TORCHVISION.items():
        assert name in catalogue.CATALOGUE and hasattr(datasets, downloader)
