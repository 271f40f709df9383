"""Image folders of the user's own, from files to splits, and what can be wrong with them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep import prepare as preparing
from data_prep.beton import BetonError, rebuild_command
from data_prep.prepare import check_prepared, open_split, prepare, verify

from .official import class_folders, picture
from .test_beton import stored_images

CLASSES = ("cat", "Dog", "owl 2")


def silent(line: str) -> None:
    pass


def nothing_but_locks(root: Path) -> bool:
    return all(path.name.endswith(".lock") for path in root.iterdir()) if root.exists() else True


def test_class_folders_become_splits(tmp_path: Path) -> None:
    class_folders(tmp_path / "photos", CLASSES, 20)
    picture(tmp_path / "photos" / "cat" / "deeper" / "a.png", 1, (700, 600))
    (tmp_path / "photos" / "cat" / "notes.txt").write_text("not an image")
    lines: list[str] = []
    folder = prepare("My-Photos", tmp_path / "root", tmp_path / "photos", log=lines.append)
    assert lines[0] == "my_photos: no data set of the catalogue, read as an image folder of your own"
    assert folder.name == "my_photos" and "prepared in" in lines[-1]
    splits = [open_split(tmp_path / "root", "my-photos", split) for split in ("train", "validation", "test")]
    assert [split.samples for split in splits] == [40, 8, 13]
    entry = splits[0].entry
    assert entry.class_names == ("Dog", "cat", "owl 2") and entry.storage == "jpeg"
    assert entry.constants("imagenet") == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    storage = splits[0].manifest["storage"]
    assert storage["original_bytes"] == 60 and storage["encoded_anew"] == 1 and storage["quality_of_those"] == 95
    assert verify(folder).splits == {"train": 40, "validation": 8, "train_full": 48, "test": 13}
    assert rebuild_command(folder) == f"hyperspherical prepare my_photos --root {tmp_path / 'root'} --source DIR"
    before = (folder / "manifest.json").read_bytes()
    prepare("my_photos", tmp_path / "root", tmp_path / "photos", log=lines.append)
    assert "already prepared" in lines[-1]
    prepare("my_photos", tmp_path / "root", tmp_path / "photos", force=True, log=silent, workers=2)
    assert (folder / "manifest.json").read_bytes() == before  # whatever the number of workers


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "val"), ("train", "val", "test")])
def test_splits_of_the_users_own(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for count, part in enumerate(parts):
        class_folders(tmp_path / "source" / part, CLASSES, 10 - 3 * count)
    prepare("mine", tmp_path, tmp_path / "source", log=silent)
    counts = {name: facts["count"] for name, facts in check_prepared(tmp_path, "mine")["splits"].items()}
    if len(parts) == 3:
        assert counts == {"train": 30, "validation": 21, "train_full": 51, "test": 12}
        assert open_split(tmp_path, "mine", "validation").indices.tolist() == list(range(30, 51))
    else:
        assert counts == {"train": 25, "validation": 5, "train_full": 30, "test": 21}


@pytest.mark.parametrize(("mode", "channels"), [("RGB", 3), ("L", 1)])
def test_small_images_of_one_size_are_stored_raw(tmp_path: Path, mode: str, channels: int) -> None:
    for part in ("train", "test"):
        class_folders(tmp_path / "source" / part, CLASSES, 8, ".png", size=(24, 24), mode=mode)
    prepare("small", tmp_path, tmp_path / "source", log=silent)
    split = open_split(tmp_path, "small", "train_full")
    assert split.entry.image_shape == (channels, 24, 24) and split.manifest["storage"] == {"kind": "raw"}
    first = np.asarray(Image.open(tmp_path / "source" / "train" / "Dog" / "Dog_0.png"))
    content = split.path.read_bytes()
    assert first.tobytes() in content


def test_damaged_images_are_named_or_left_out(tmp_path: Path) -> None:
    source, root = tmp_path / "source", tmp_path / "root"
    for part in ("train", "test"):
        class_folders(source / part, CLASSES, 10)
    for name in ("cat_3", "cat_4"):
        (source / "train" / "cat" / f"{name}.jpg").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"cat_3\.jpg: it is not an image; .*--skip-unreadable N"):
        prepare("mine", root, source, log=silent)
    with pytest.raises(ValueError, match=r"2 images cannot be used, the last is .*cat_4\.jpg"):
        prepare("mine", root, source, log=silent, skip_unreadable=1)
    assert nothing_but_locks(root)
    lines: list[str] = []
    prepare("mine", root, source, log=lines.append, skip_unreadable=2)
    full = open_split(root, "mine", "train_full")
    assert full.samples == 28 and np.bincount(stored_images(full.path)[1]).tolist() == [10, 8, 10]
    assert [Path(path).name for path in full.manifest["unreadable"]] == ["cat_3.jpg", "cat_4.jpg"]
    assert sum("left out" in line for line in lines) == 2


def test_folders_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    source, root = tmp_path / "source", tmp_path / "root"

    def refused(fault: str, name: str = "mine") -> None:
        with pytest.raises(ValueError, match=fault):
            prepare(name, root, source, log=silent)
        assert nothing_but_locks(root)

    refused("is not a folder")
    source.mkdir()
    refused("no class folders with images")
    refused('cannot be named "../mine"', "../mine")
    (source / "empty").mkdir()
    refused("no class folders with images")
    picture(source / "cat" / "a.jpg", 1)
    refused("1 of 2 class folders in .* hold no images: empty")
    class_folders(source / "train", CLASSES, 10)
    refused("a folder train but neither test nor val")
    class_folders(source / "val", ("cat", "Dog", "fox"), 2)
    refused("do not match between its splits: only in train: owl 2; only in val: fox")
    with pytest.raises(ValueError, match=r'unknown data set "mine"'):
        prepare("mine", root, log=silent)
    with pytest.raises(ValueError, match="digits is no corrupted data set"):
        prepare("digits", root, log=silent, corruptions=["fog"])


def test_too_few_images_for_the_splits_are_named(tmp_path: Path) -> None:
    class_folders(tmp_path / "source", CLASSES, 2)
    with pytest.raises(ValueError, match="needs more images: 6 of 3 classes"):
        prepare("mine", tmp_path / "root", tmp_path / "source", log=silent)


def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class_folders(tmp_path / "source", CLASSES, 20)
    monkeypatch.setattr(preparing.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 30_000_000})())
    with pytest.raises(ValueError, match=r"not enough space in .* for mine: it needs 34 MB, 30 MB are free"):
        prepare("mine", tmp_path / "root", tmp_path / "source", log=silent)
    assert nothing_but_locks(tmp_path / "root")


def test_wrong_names_and_missing_files_of_ones_own_set_are_named(tmp_path: Path) -> None:
    class_folders(tmp_path / "source", CLASSES, 20)
    folder = prepare("mine", tmp_path, tmp_path / "source", log=silent)
    with pytest.raises(ValueError, match='no split "val"; allowed: train, validation, train_full, test'):
        open_split(tmp_path, "mine", "val")
    with pytest.raises(ValueError, match='unknown data set "yours"'):
        open_split(tmp_path, "yours", "test")
    (folder / "test.beton").unlink()
    with pytest.raises(BetonError, match=r"test\.beton is missing; .*prepare mine --root .* --source DIR"):
        open_split(tmp_path, "mine", "test")
