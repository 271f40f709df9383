"""Corrupted data sets on small files in the official formats: made, read, continued, refused."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from data_prep import corrupted
from data_prep.beton import BetonError, digest, write_beton
from data_prep.beton_writer import write_jpeg_beton
from data_prep.catalogue import CATALOGUE
from data_prep.corrupted import open_corrupted, prepare_corrupted
from data_prep.corruption.sources import Chunk, CleanImages, Encoded
from data_prep.corruptions import corrupt
from data_prep.dataset_entry import DatasetEntry
from data_prep.loading import Loader, Sequential
from data_prep.prepared import FORMAT, Split, verify

COUNT = 40
RNG = np.random.default_rng(0)
CLEAN = RNG.integers(0, 256, (COUNT, 32, 32, 3), np.uint8)
LABELS = np.arange(COUNT) % 10
WNIDS = ("n01558993", "n01692333")


def quiet(line: str) -> None:
    pass


def die(chunk: Chunk) -> None:
    os._exit(1)


@pytest.fixture
def cifar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DatasetEntry:
    """CIFAR-10-C of 40 images, and its clean set prepared in `tmp_path`/data."""
    folder = tmp_path / "data" / "cifar10"
    folder.mkdir(parents=True)
    write_beton(folder / "test.beton", CLEAN, LABELS)
    _write_clean_manifest(folder, CATALOGUE["cifar10"].class_names)
    return _small(monkeypatch, "cifar10_c", COUNT)


@pytest.fixture
def imagenet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DatasetEntry:
    """ImageNet-100-C of two classes and four images, and its clean set prepared in `tmp_path`/data."""
    folder = tmp_path / "data" / "imagenet100"
    folder.mkdir(parents=True)
    write_jpeg_beton(folder / "test.beton", _jpegs([(300, 400), (260, 256), (224, 224), (500, 280)]), np.arange(4) // 2)
    _write_clean_manifest(folder, WNIDS)
    monkeypatch.setitem(CATALOGUE, "imagenet100", replace(CATALOGUE["imagenet100"], class_names=WNIDS, test_count=4))
    return _small(monkeypatch, "imagenet100_c", 4, class_names=WNIDS)


def _small(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int, class_names: tuple[str, ...] | None = None
) -> DatasetEntry:
    names = class_names or CATALOGUE[name].class_names
    entry = replace(CATALOGUE[name], test_count=count, class_names=names)
    monkeypatch.setitem(CATALOGUE, name, entry)
    return entry


def _write_clean_manifest(folder: Path, class_names: tuple[str, ...]) -> None:
    path = folder / "test.beton"
    manifest = {
        "format": FORMAT,
        "name": folder.name,
        "class_names": list(class_names),
        "source": {"folder": str(folder)},
        "splits": {"test": {"file": path.name, "indices": None, "count": 0}},
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": digest(path)}},
    }
    manifest["splits"]["test"]["count"] = len(Loaded(folder).places)  # type: ignore[index]
    (folder / "manifest.json").write_text(json.dumps(manifest))


class Loaded:
    """Every stored byte and label of a .beton file, by its own tables."""

    def __init__(self, folder: Path, file: str = "test.beton", jpeg: bool = False) -> None:
        path = folder / file
        facts = {"class_names": [], "files": {file: {"sha256": ""}}}
        entry = SimpleNamespace(storage="jpeg" if jpeg else "raw")
        rows = CleanImages(Split(folder, "test", entry, path, None, 0, facts))  # type: ignore[arg-type]
        content = path.read_bytes()
        self.places = rows.places_N3
        self.labels = rows.labels_N.tolist()
        self.contents = [content[start : start + length] for start, length, _ in rows.places_N3.tolist()]

    @property
    def images(self) -> NDArray[np.uint8]:
        return np.stack([np.frombuffer(content, np.uint8).reshape(32, 32, 3) for content in self.contents])


def _jpegs(sizes: list[tuple[int, int]]) -> Iterator[Encoded]:
    for seed, (height, width) in enumerate(sizes):
        coarse = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
        file = BytesIO()
        Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        yield file.getvalue(), height, width


def test_made_from_the_clean_test_set(cifar: DatasetEntry, tmp_path: Path) -> None:
    root, lines = tmp_path / "data", []
    folder = prepare_corrupted(cifar, root, None, ["contrast", "fog"], [5, 1], 1, lines.append)
    names = ["contrast_1.beton", "contrast_5.beton", "fog_1.beton", "fog_5.beton"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "manifest.json"]
    for name, severity in (("fog", 5), ("contrast", 1)):
        stored = Loaded(folder, f"{name}_{severity}.beton")
        expected = [corrupt(image, name, severity, "cifar", (0, index)) for index, image in enumerate(CLEAN)]
        np.testing.assert_array_equal(stored.images, np.stack(expected))
        assert stored.labels == LABELS.tolist()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["making"] == {
        "made": "here from cifar10/test.beton",
        "clean_sha256": digest(root / "cifar10" / "test.beton"),
        "strengths": "CIFAR-C",
        "seed": 0,
    }
    assert list(manifest["splits"]) == ["fog_1", "fog_5", "contrast_1", "contrast_5"]  # the release's order
    assert manifest["splits"]["fog_1"]["per_class"] == [4] * 10
    assert verify(folder).splits["fog_5"] == COUNT
    assert "making 4 files of 40 images here from cifar10/test.beton" in lines[0]


def test_opened_for_the_loader(cifar: DatasetEntry, tmp_path: Path) -> None:
    prepare_corrupted(cifar, tmp_path / "data", None, ["pixelate"], [2], 1, quiet)
    split = open_corrupted(tmp_path / "data", "cifar10-c", "pixelate", 2)
    assert split.samples == COUNT
    (batch,) = Loader(split, batch_size=COUNT, order=Sequential()).epoch(0)
    expected = np.stack([corrupt(image, "pixelate", 2) for image in CLEAN]).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(batch.images_BVCHW[:, 0].numpy(), expected, atol=1e-6)
    assert batch.labels_B.tolist() == LABELS.tolist()
    with pytest.raises(ValueError, match='has no split "pixelate_3"'):
        open_corrupted(tmp_path / "data", "cifar10_c", "pixelate", 3)
    with pytest.raises(ValueError, match='unknown corruption "pixel"; allowed: gaussian_noise'):
        open_corrupted(tmp_path / "data", "cifar10_c", "pixel", 3)


def test_the_number_of_workers_changes_no_bit(
    cifar: DatasetEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrupted, "_RAW_CHUNK", 7)
    names = ["glass_blur", "snow", "elastic_transform", "gaussian_blur"]
    found = []
    for number, (workers, executor) in enumerate(((1, None), (2, None), (2, ThreadPoolExecutor(2)))):
        folder = prepare_corrupted(cifar, tmp_path / "data", None, names, [3], workers, quiet, executor=executor)
        found.append([digest(folder / f"{name}_3.beton") for name in names])
        folder.rename(tmp_path / f"kept_{number}")
    assert found[0] == found[1] == found[2]


def test_a_stopped_run_continues_and_leaves_finished_files_alone(
    cifar: DatasetEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, names = tmp_path / "data", ["gaussian_noise", "frost", "spatter"]
    written: list[str] = []

    def stops_at_the_third(path: Path, *arguments: NDArray[np.uint8]) -> None:
        if len(written) == 2:
            (path.parent / f".{path.name}.tmp999999999").write_bytes(b"half")
            raise KeyboardInterrupt
        written.append(path.name)
        write_beton(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(corrupted, "write_beton", stops_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            prepare_corrupted(cifar, root, None, names, [1, 2], 1, quiet)
    folder = root / "cifar10_c"
    assert verify(folder).splits == {"gaussian_noise_1": COUNT, "gaussian_noise_2": COUNT}
    before = {name: (folder / name).stat().st_mtime_ns for name in written}
    lines: list[str] = []
    prepare_corrupted(cifar, root, None, names, [1, 2], 1, lines.append)
    assert lines[0].endswith("2 files are there and whole")
    assert lines[-1].endswith("4 of them new")
    assert {name: (folder / name).stat().st_mtime_ns for name in written} == before
    assert len(verify(folder).splits) == 6
    assert not list(folder.glob(".*tmp*"))
    whole = prepare_corrupted(cifar, tmp_path / "data", None, names, [1, 2], 1, lines.append)
    assert lines[-1].endswith("0 of them new")
    digests = {path.name: digest(path) for path in whole.glob("*.beton")}
    whole.rename(tmp_path / "stopped")
    prepare_corrupted(cifar, root, None, names, [1, 2], 1, quiet)
    assert {path.name: digest(path) for path in folder.glob("*.beton")} == digests


def test_more_can_be_added_and_what_is_damaged_or_unknown_is_made_again(cifar: DatasetEntry, tmp_path: Path) -> None:
    root = tmp_path / "data"
    folder = prepare_corrupted(cifar, root, None, ["fog"], [1, 2], 1, quiet)
    expected = {path.name: digest(path) for path in folder.glob("*.beton")}
    (folder / "fog_2.beton").unlink()
    content = bytearray((folder / "fog_1.beton").read_bytes())
    content[-5000] ^= 1
    (folder / "fog_1.beton").write_bytes(content)
    (folder / "fog_3.beton").write_bytes(b"nobody vouches for this")
    lines: list[str] = []
    prepare_corrupted(cifar, root, None, ["fog"], [1, 2, 3], 1, lines.append)
    assert "fog_1.beton has changed" in lines[0]
    assert "fog_2.beton is missing" in lines[1]
    assert set(verify(folder).splits) == {"fog_1", "fog_2", "fog_3"}
    assert {name: digest(folder / name) for name in expected} == expected
    (folder / "manifest.json").write_text("{")
    prepare_corrupted(cifar, root, None, ["fog"], [1], 1, quiet)
    assert set(verify(folder).splits) == {"fog_1"}


def test_a_worker_that_dies_is_an_error_in_words(
    cifar: DatasetEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrupted, "_corrupt_in_one_thread", die)
    with pytest.raises(ValueError, match="run it again with fewer workers; finished files are kept"):
        prepare_corrupted(cifar, tmp_path / "data", None, ["fog"], [1], 2, quiet)


def test_news_while_it_runs(cifar: DatasetEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrupted, "_SECONDS_BETWEEN_NEWS", -1.0)
    monkeypatch.setattr(corrupted, "_RAW_CHUNK", 20)
    lines: list[str] = []
    prepare_corrupted(cifar, tmp_path / "data", None, ["fog"], [1, 2], 1, lines.append)
    counted = [line for line in lines if "minutes left" in line]
    assert [line.split(": ")[1].split(" images")[0] for line in counted] == [
        *("0 of 2 files, 20 of 80", "0 of 2 files, 40 of 80"),
        *("1 of 2 files, 60 of 80", "1 of 2 files, 80 of 80"),
    ]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Two arrays of a release, a level below the folder that is given."""
    folder = tmp_path / "download" / "CIFAR-10-C"
    folder.mkdir(parents=True)
    np.save(folder / "labels.npy", np.tile(LABELS, 5).astype(np.uint8))
    for number, name in enumerate(("fog", "saturate")):
        np.save(folder / f"{name}.npy", np.random.default_rng(number).integers(0, 256, (200, 32, 32, 3), np.uint8))
    return folder


def test_the_official_release_has_severity_1_first(cifar: DatasetEntry, release: Path, tmp_path: Path) -> None:
    folder = prepare_corrupted(cifar, tmp_path / "data", release.parent, ["fog", "saturate"], None, 2, quiet)
    arrays = np.load(release / "saturate.npy")
    for severity in (1, 4):
        stored = Loaded(folder, f"saturate_{severity}.beton")
        np.testing.assert_array_equal(stored.images, arrays[(severity - 1) * COUNT : severity * COUNT])
        assert stored.labels == LABELS.tolist()
    assert json.loads((folder / "manifest.json").read_text())["making"] == {"made": "from the official release"}
    assert len(verify(folder).splits) == 10
    lines: list[str] = []
    prepare_corrupted(cifar, tmp_path / "data", None, ["fog"], [1], 1, lines.append)
    assert lines[-1].endswith("0 of them new")
    with pytest.raises(ValueError, match="were made from the official release, others now would be made here from"):
        prepare_corrupted(cifar, tmp_path / "data", None, ["snow"], [1], 1, quiet)
    prepare_corrupted(cifar, tmp_path / "data", None, ["fog"], [1], 1, quiet, force=True)
    assert verify(folder).splits == {"fog_1": COUNT}
    assert json.loads((folder / "manifest.json").read_text())["making"]["strengths"] == "CIFAR-C"


def test_a_release_that_is_not_whole_is_refused_in_words(cifar: DatasetEntry, release: Path, tmp_path: Path) -> None:
    def refuses(words: str, corruptions: list[str] | None, source: Path = release) -> None:
        with pytest.raises(ValueError, match=words):
            prepare_corrupted(cifar, tmp_path / "data", source, corruptions, [1], 1, quiet)
        assert not (tmp_path / "data" / "cifar10_c").exists()

    refuses("lacks 17 of the 19 wanted arrays: gaussian_noise.npy, ", None)
    refuses("is not a folder", ["fog"], tmp_path / "nowhere")
    refuses("does not hold the release of CIFAR-10-C: there is no labels.npy", ["fog"], tmp_path / "data" / "cifar10")
    np.save(release / "fog.npy", np.zeros((199, 32, 32, 3), np.uint8))
    refuses("should hold 200 uint8 images of 32 x 32 x 3, found uint8 of shape", ["fog"])
    (release / "fog.npy").write_bytes(b"no array")
    refuses("fog.npy cannot be read as an array", ["fog"])
    np.save(release / "labels.npy", np.arange(200) % 7)
    refuses("should hold the same 40 labels five times", ["saturate"])
    np.save(release / "labels.npy", np.tile(LABELS + 1, 5))
    refuses(r"should hold labels in 0..9, found 1..10", ["saturate"])


def test_imagenet_is_cut_to_224_pixels_corrupted_and_encoded(imagenet: DatasetEntry, tmp_path: Path) -> None:
    found = []
    for workers in (1, 2):
        folder = prepare_corrupted(imagenet, tmp_path / "data", None, ["contrast", "frost"], [2], workers, quiet)
        found.append([digest(folder / f"{name}_2.beton") for name in ("contrast", "frost")])
        stored = Loaded(folder, "contrast_2.beton", jpeg=True)
        manifest = json.loads((folder / "manifest.json").read_text())
        folder.rename(tmp_path / f"kept_{workers}")
    assert found[0] == found[1]
    assert stored.labels == [0, 0, 1, 1]
    assert manifest["making"]["strengths"] == "ImageNet-C"
    assert manifest["making"]["jpeg_quality"] == 85
    assert manifest["making"]["geometry"] == "shorter edge resized to 256, centre 224 x 224"
    clean = Loaded(tmp_path / "data" / "imagenet100", jpeg=True)
    for index, (content, original) in enumerate(zip(stored.contents, clean.contents, strict=True)):
        image = Image.open(BytesIO(original))
        scale = 256 / min(image.size)
        image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        square = np.array(image.crop((left, top, left + 224, top + 224)))
        expected = corrupt(square, "contrast", 2, "imagenet", (0, index)).astype(int)
        decoded = np.array(Image.open(BytesIO(content))).astype(int)
        assert decoded.shape == (224, 224, 3)
        assert np.abs(decoded - expected).mean() < 3


def _write_tree(folder: Path, severities: tuple[int, ...] = (1, 3)) -> list[bytes]:
    contents = []
    for severity in severities:
        for wnid in (*WNIDS, "n99999999"):
            of_class = folder / str(severity) / wnid
            of_class.mkdir(parents=True)
            for number, (content, _, _) in enumerate(_jpegs([(224, 224), (224, 224)])):
                marked = content + f"{severity}{wnid}{number}".encode()
                (of_class / f"ILSVRC2012_val_{number:08d}.JPEG").write_bytes(marked)
                if wnid in WNIDS:
                    contents.append(marked)
    return contents


@pytest.mark.parametrize("above", ["", "weather"])
def test_the_official_tree_is_taken_byte_for_byte(imagenet: DatasetEntry, tmp_path: Path, above: str) -> None:
    contents = _write_tree(tmp_path / "tree" / above / "fog")
    folder = prepare_corrupted(imagenet, tmp_path / "data", tmp_path / "tree", ["fog"], [1, 3], 2, quiet)
    stored = [Loaded(folder, f"fog_{severity}.beton", jpeg=True) for severity in (1, 3)]
    assert [*stored[0].contents, *stored[1].contents] == contents
    assert stored[0].labels == [0, 0, 1, 1]
    assert open_corrupted(tmp_path / "data", "imagenet100_c", "fog", 3).samples == 4


def test_a_tree_that_is_not_whole_is_refused_in_words(imagenet: DatasetEntry, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _write_tree(tree / "fog", (1, 2, 3))
    (tree / "fog" / "1" / WNIDS[0] / "ILSVRC2012_val_00000000.JPEG").unlink()
    broken = tree / "fog" / "2" / WNIDS[1] / "ILSVRC2012_val_00000001.JPEG"
    for severity, words in (
        (1, "should hold 4 images of the classes of imagenet100_c, found 3"),
        (4, f"has no images of class {WNIDS[0]}"),
    ):
        with pytest.raises(ValueError, match=words):
            prepare_corrupted(imagenet, tmp_path / "data", tree, ["fog"], [severity], 1, quiet)
    with pytest.raises(ValueError, match=r"lacks 1 of the 2 wanted folders of ImageNet-100-C.*: snow"):
        prepare_corrupted(imagenet, tmp_path / "data", tree, ["fog", "snow"], [1], 1, quiet)
    for content, words in ((b"not an image", "is not an image"), (_png(), "should be a JPEG file, found PNG")):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=f"{broken} {words}"):
            prepare_corrupted(imagenet, tmp_path / "data", tree, ["fog"], [3, 2], 1, quiet)
        assert not (tmp_path / "data" / "imagenet100_c" / "fog_2.beton").exists()


def _png() -> bytes:
    file = BytesIO()
    Image.fromarray(CLEAN[0]).save(file, "PNG")
    return file.getvalue()


def test_wrong_arguments_and_circumstances_are_refused_in_words(
    cifar: DatasetEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    with pytest.raises(ValueError, match='unknown corruption "mist"; allowed: gaussian_noise, shot_noise'):
        prepare_corrupted(cifar, root, None, ["mist"], None, 1, quiet)
    with pytest.raises(ValueError, match='unknown severity "6"; allowed: 1, 2, 3, 4, 5'):
        prepare_corrupted(cifar, root, None, None, [6], 1, quiet)
    with pytest.raises(ValueError, match="no severity was chosen"):
        prepare_corrupted(cifar, root, None, None, [], 1, quiet)
    with pytest.raises(ValueError, match="workers should be at least 1, found 0"):
        prepare_corrupted(cifar, root, None, None, None, 0, quiet)
    with pytest.raises(BetonError, match="cifar10 is missing: the data set is not prepared"):
        prepare_corrupted(cifar, tmp_path / "elsewhere", None, None, None, 1, quiet)
    monkeypatch.setattr(corrupted.shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000_000))
    with pytest.raises(ValueError, match=r"not enough space in .* for 95 files of cifar10_c: they need about"):
        prepare_corrupted(cifar, root, None, None, None, 1, quiet)
