"""Preparing a data set: all or nothing, once, by one process at a time."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from data_prep import catalogue, originals
from data_prep import prepare as preparing
from data_prep.beton import BetonError
from data_prep.prepare import check_prepared, describe, open_split, prepare, verify

from .test_sources import write_cifar100, write_idx


def silent(line: str) -> None:
    pass


def test_the_manifest_tells_what_was_prepared(prepared_root: Path) -> None:
    manifest = check_prepared(prepared_root, "digits")
    assert manifest["image_shape"] == [1, 8, 8] and manifest["validation"]["seed"] == 1234
    counts = {split: facts["count"] for split, facts in manifest["splits"].items()}
    assert counts == {"train": 1221, "validation": 216, "train_full": 1437, "test": 360}
    assert all(sum(facts["per_class"]) == facts["count"] for facts in manifest["splits"].values())
    assert set(manifest["files"]) == {
        "train_full.beton",
        "test.beton",
        "train_indices.npy",
        "validation_indices.npy",
    }
    description = verify(prepared_root / "digits")
    assert description.splits == counts and [info.samples for info in description.files] == [360, 1437]
    assert describe(prepared_root / "digits" / "test.beton").splits == {"test": 360}


def test_splits_are_disjoint_and_complete(prepared_root: Path) -> None:
    train, validation = (open_split(prepared_root, "digits", split).indices for split in ("train", "validation"))
    assert train is not None and validation is not None
    assert np.array_equal(np.sort(np.concatenate([train, validation])), np.arange(1437))
    assert open_split(prepared_root, "digits", "test").indices is None
    with pytest.raises(ValueError, match=r'no split "val"; allowed: train, validation'):
        open_split(prepared_root, "digits", "val")


def test_a_finished_data_set_is_kept_and_a_damaged_one_mended(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = prepare("digits", tmp_path, log=lines.append)
    before = (folder / "manifest.json").read_bytes()
    assert "prepared in" in lines[-1]
    prepare("digits", tmp_path, log=lines.append)
    assert "already prepared" in lines[-1]
    for damage in (
        lambda: (folder / "test.beton").unlink(),
        lambda: (folder / "manifest.json").write_text('{"name": "dig'),
        lambda: (folder / "manifest.json").write_text("[]"),
        lambda: flip_a_bit(folder / "test.beton"),
        lambda: flip_a_bit(folder / "train_indices.npy"),
    ):
        damage()
        lines.clear()
        with pytest.raises(BetonError, match="hyperspherical prepare digits"):
            [open_split(tmp_path, "digits", split) for split in ("train", "test")]
        prepare("digits", tmp_path, log=lines.append)
        assert "preparing it again" in lines[0]
        assert (folder / "manifest.json").read_bytes() == before  # the same bytes, so the same digests
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["digits"]


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1000] ^= 4
    path.write_bytes(content)


def test_an_unprepared_data_set_is_named(tmp_path: Path) -> None:
    command = f"hyperspherical prepare mnist --root {tmp_path}"
    with pytest.raises(BetonError, match=f"not prepared; rebuild it with: {command}"):
        open_split(tmp_path, "mnist", "train")


def test_the_checksum_of_a_changed_file_is_looked_at_unless_told_not_to(tmp_path: Path) -> None:
    folder = prepare("digits", tmp_path, log=silent)
    flip_a_bit(folder / "test.beton")
    open_split(tmp_path, "digits", "test", verify=False)
    open_split(tmp_path, "digits", "train")
    with pytest.raises(BetonError, match="has changed"):
        open_split(tmp_path, "digits", "test")
    with pytest.raises(BetonError, match=r"test\.beton has changed"):
        verify(folder)


def test_originals_from_a_source_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mnist = write_idx(tmp_path / "source", compressed=True, images=200)
    cifar100, _ = write_cifar100(tmp_path / "source100")
    monkeypatch.setitem(catalogue.CATALOGUE, "mnist", mnist)
    monkeypatch.setitem(catalogue.CATALOGUE, "cifar100", cifar100)
    root = tmp_path / "root"
    folder = prepare("mnist", root, tmp_path / "source", log=silent)
    assert len(json.loads((folder / "manifest.json").read_text())["source"]["md5"]) == 4
    assert open_split(root, "mnist", "validation").samples == 30
    with pytest.raises(ValueError, match="is not a folder"):
        prepare("cifar100", root, tmp_path / "nowhere", log=silent)
    with pytest.raises(ValueError, match="not the official file"):
        flip_a_bit(tmp_path / "source100" / "test")
        prepare("cifar100", root, tmp_path / "source100", log=silent)
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == ["mnist"]
    assert not list(root.glob(".*preparing*"))


def test_without_originals_the_three_ways_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    class NoNetwork:
        def __init__(self, root: str, download: bool) -> None:
            raise OSError("<urlopen error: no route>")

    monkeypatch.setattr(datasets, "FashionMNIST", NoNetwork)
    missing = dataclasses.replace(catalogue.entry("fashion_mnist"), system_folder=tmp_path / "usr")
    monkeypatch.setitem(catalogue.CATALOGUE, "fashion_mnist", missing)
    with pytest.raises(ValueError, match=r"no route.*dataset-fashion-mnist.*--source DIR.*train-images.*network"):
        prepare("fashion_mnist", tmp_path / "root", log=silent)
    assert not [path for path in (tmp_path / "root").iterdir() if not path.name.endswith(".lock")]


def test_originals_in_the_system_folder_are_found(tmp_path: Path) -> None:
    mnist = write_idx(tmp_path / "usr", compressed=True)
    installed = dataclasses.replace(mnist, system_folder=tmp_path / "usr")
    assert originals.locate(installed, tmp_path, None, silent) == tmp_path / "usr"


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot prepare digits in .*file/root: Not a directory"):
        prepare("digits", tmp_path / "file" / "root", log=silent)
    monkeypatch.setattr(preparing.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(ValueError, match="not enough space"):
        prepare("digits", tmp_path, log=silent)


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    from .test_beton import largest_file

    with largest_file(1 << 20), pytest.raises(ValueError, match=r"cannot prepare digits .*nothing was changed"):
        prepare("digits", tmp_path, log=silent)
    assert [path.name for path in tmp_path.iterdir()] == [".digits.lock"]


KILLED = """
import os, signal, sys
from data_prep.prepare import prepare
def log(line):
    if "test.beton" in line:
        os.kill(os.getpid(), signal.SIGKILL)
prepare("digits", sys.argv[1], log=log)
"""


def test_a_killed_run_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "digits").exists() and list(tmp_path.glob(".digits.preparing-*"))
    prepare("digits", tmp_path, log=silent)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".digits.lock", "digits"]


def test_a_second_run_waits_for_the_first(tmp_path: Path) -> None:
    writing, go_on = threading.Event(), threading.Event()
    first: list[str] = []
    second: list[str] = []

    def slow(line: str) -> None:
        first.append(line)
        if "test.beton" in line:
            writing.set()
            assert go_on.wait(60)

    def log(line: str) -> None:
        second.append(line)
        go_on.set()

    threads = [threading.Thread(target=prepare, args=("digits", tmp_path), kwargs={"log": slow})]
    threads[0].start()
    assert writing.wait(60)
    prepare("digits", tmp_path, log=log)
    threads[0].join()
    assert "waiting" in second[0] and "already prepared" in second[1] and "prepared in" in first[-1]
