"""The catalogue, and the readers on small files made in the official formats."""

import dataclasses
import gzip
import hashlib
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from data_prep import sources
from data_prep.catalogue import CATALOGUE, DatasetEntry, entry
from data_prep.sources import cifar, idx

IDX_NAMES = tuple(entry("mnist").files)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, compressed: bool, images: int = 20) -> DatasetEntry:
    """Small MNIST-like files, and the catalogue entry that expects them."""
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    digests = {}
    for name in IDX_NAMES:
        labels = np.arange(images, dtype=np.uint8) % 10
        content = idx_bytes(rng.integers(0, 256, (images, 28, 28), np.uint8) if "images" in name else labels)
        digests[name] = hashlib.md5(content).hexdigest()
        (folder / f"{name}.gz" if compressed else folder / name).write_bytes(
            gzip.compress(content) if compressed else content
        )
    return dataclasses.replace(entry("mnist"), files=digests, train_count=images, test_count=images)


def python2_pickle(batch: dict[bytes, object]) -> bytes:
    """Protocol 2 with byte strings, as Python 2 wrote the official files: arrays inside name numpy.core."""
    return pickle.dumps(batch, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_cifar100(folder: Path) -> tuple[DatasetEntry, np.ndarray]:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 256, (200, 3072), np.uint8)
    fine = [int(label) for label in np.arange(200) % 100]
    folder.mkdir(parents=True)
    digests = {}
    for name in ("train", "test"):
        batch = {b"data": rows, b"fine_labels": fine, b"coarse_labels": [label // 5 for label in fine]}
        (folder / name).write_bytes(python2_pickle(batch))
        digests[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    return dataclasses.replace(entry("cifar100"), files=digests, train_count=200, test_count=200), rows


def test_catalogue_is_consistent() -> None:
    assert {"mnist", "fashion_mnist", "cifar10", "cifar100", "digits"} <= set(CATALOGUE)
    for name, dataset in CATALOGUE.items():
        assert dataset.name == name and len(set(dataset.class_names)) == len(dataset.class_names)
        assert dataset.num_classes and bool(dataset.class_names) != bool(dataset.class_count)
        assert (dataset.storage == "raw") == (dataset.image_size is not None)
        assert all(len(mean) == len(std) == dataset.channels for mean, std in dataset.normalisation.values())
    fine = entry("cifar100").class_names
    assert len(fine) == 100 and list(fine) == sorted(fine)
    assert len(entry("cifar100").classes_of("coarse_label")) == 20


def test_names_are_found_and_near_ones_suggested() -> None:
    assert entry("fashion-mnist") is CATALOGUE["fashion_mnist"]
    with pytest.raises(ValueError, match=r'unknown data set "cifar11"; did you mean .*cifar10'):
        entry("cifar11")
    with pytest.raises(ValueError, match="no normalisation constants"):
        entry("mnist").constants("dsf")
    with pytest.raises(ValueError, match="allowed: label"):
        entry("mnist").classes_of("coarse_label")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", ["", "raw", "MNIST/raw"])
def test_idx_files_are_found_and_read(tmp_path: Path, compressed: bool, place: str) -> None:
    dataset = write_idx(tmp_path / "a" / place, compressed)
    originals = sources.read(dataset, tmp_path / "a")
    assert originals.train.images_NHWC.shape == (20, 28, 28, 1)
    assert originals.test.labels_N.tolist() == [label % 10 for label in range(20)]
    assert sorted(originals.digests.values()) == sorted(dataset.files.values())
    assert sources.complete(dataset, tmp_path / "a") and not sources.complete(dataset, tmp_path)


def test_changed_short_and_missing_idx_files_are_refused(tmp_path: Path) -> None:
    dataset = write_idx(tmp_path / "a", compressed=True)
    path = tmp_path / "a" / f"{IDX_NAMES[0]}.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content[:-1] + bytes([content[-1] ^ 1])))
    with pytest.raises(ValueError, match=r"train-images.*MD5 digest should be .*, found") as caught:
        sources.read(dataset, tmp_path / "a")
    assert dataset.files[IDX_NAMES[0]] in str(caught.value)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="damaged gzip file"):
        sources.read(dataset, tmp_path / "a")
    path.unlink()
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte \(or .*\.gz\) of mnist is missing"):
        sources.read(dataset, tmp_path / "a")


def test_idx_headers_are_checked() -> None:
    good = idx_bytes(np.zeros((2, 3), np.uint8))
    assert idx.parse(Path("x"), good).shape == (2, 3)
    for bad, fault in (
        (b"", "not an idx file"),
        (b"\x89PNG....", "not an idx file"),
        (good[:6], "inside its header"),
        (good[:-1], "should hold 18 bytes"),
        (good + b"\0", "should hold 18 bytes"),
    ):
        with pytest.raises(ValueError, match=fault):
            idx.parse(Path("x"), bad)


def test_a_wrong_number_of_images_is_refused(tmp_path: Path) -> None:
    dataset = write_idx(tmp_path / "a", compressed=False)
    with pytest.raises(ValueError, match="should hold 21 images, found 20"):
        sources.read(dataclasses.replace(dataset, train_count=21), tmp_path / "a")


def test_cifar_pickles_are_read_with_both_labels(tmp_path: Path) -> None:
    dataset, rows = write_cifar100(tmp_path / "cifar-100-python")
    originals = sources.read(dataset, tmp_path)
    red, green = rows[7].reshape(3, 32, 32)[:2]
    assert np.array_equal(originals.train.images_NHWC[7, :, :, 0], red)
    assert np.array_equal(originals.train.images_NHWC[7, :, :, 1], green)
    assert originals.train.labels_N[7] == 7 and originals.train.extra_N["coarse_label"][7] == 1
    (tmp_path / "cifar-100-python" / "test").unlink()
    with pytest.raises(ValueError, match="test of cifar100 missing"):
        sources.read(dataset, tmp_path)


class _Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch attacked",)


def test_a_malicious_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not a CIFAR batch in the official format: it asks for"):
        cifar.parse(Path("train"), pickle.dumps({b"data": _Attack()}, protocol=2))
    assert not (tmp_path / "attacked").exists()
    with pytest.raises(ValueError, match="not a CIFAR batch"):
        cifar.parse(Path("train"), b"nonsense")


def test_the_bundled_digits_keep_their_pixels() -> None:
    from sklearn.datasets import load_digits

    originals = sources.read(entry("digits"), Path())
    assert originals.train.images_NHWC.max() == 255 and originals.train.images_NHWC.shape == (1437, 8, 8, 1)
    total = originals.train.images_NHWC.astype(int).sum() + originals.test.images_NHWC.astype(int).sum()
    assert total == np.rint(load_digits().images * 255 / 16).sum()
    shares = np.bincount(originals.test.labels_N) / np.bincount(load_digits().target)
    assert np.all(np.abs(shares - 0.2) < 0.01)
