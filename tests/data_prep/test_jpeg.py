"""JPEG images of many sizes: exact pixels, one decode for all views, determinism, and damage that is named."""

import io
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from data_prep import augment, jpeg
from data_prep.augment import Preset
from data_prep.augmentation.geometry import CentreCrop, WindowResize
from data_prep.augmentation.stages import HorizontalFlip
from data_prep.beton import BetonError
from data_prep.beton_writer import write_jpeg_beton
from data_prep.catalogue import entry
from data_prep.loading import Batch, Loader, Sequential, Shuffled
from data_prep.prepared import Split
from data_prep.reading import BetonReader, Images, JpegBatch, Team

SIDE, COUNT = 32, 40
VIEWS = (("test_window", 2), ("test_centre", 1))


def encoded(number: int, mode: str = "RGB") -> tuple[bytes, int, int]:
    """A smooth image whose size follows from its number."""
    rng = np.random.default_rng(number)
    height, width = 33 + 5 * (number % 7), 35 + 11 * (number % 5)
    small = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8)).convert(mode)
    file = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue(), height, width


FILES = [encoded(number, "L" if number == 3 else "RGB") for number in range(COUNT)]


def split_of(path: Path, files: list[tuple[bytes, int, int]]) -> Split:
    write_jpeg_beton(path, files, np.arange(len(files)) % 10)
    return Split(path.parent, "test", replace(entry("imagenette"), shorter_edge=None), path, None, len(files), {})


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return split_of(tmp_path_factory.mktemp("jpeg") / "test.beton", FILES)


@pytest.fixture(autouse=True)
def presets(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {
        "test_window": Preset((HorizontalFlip(),), geometry=WindowResize(SIDE, scale=(0.3, 1.0))),
        "test_centre": Preset(geometry=CentreCrop(SIDE)),
        "test_larger": Preset(geometry=CentreCrop(SIDE + 8)),
    }
    monkeypatch.setattr(augment, "PRESETS", {**augment.PRESETS, **ours})


def loader(split: Split, **options: object) -> Loader:
    options = {"batch_size": 16, "order": Shuffled(), "views": VIEWS, "seed": 5, "drop_last": False, **options}
    return Loader(split, **options)  # type: ignore[arg-type]


def same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def by_pil(number: int) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(FILES[number][0])).convert("RGB"))


def test_images_of_all_sizes_come_back_as_pil_decodes_them(split: Split) -> None:
    def copies(number: int, images: Images, labels_B: np.ndarray, team: Team) -> list[np.ndarray]:
        assert isinstance(images, JpegBatch) and labels_B.tolist() == [index % 10 for index in wanted[number]]
        return [images.decode(place).copy() for place in range(len(images))]

    wanted = [np.array([3, 17, 0]), np.array([39])]
    reading = BetonReader(split.path, "label", None).batches(wanted, copies)
    for indices, images in zip(wanted, reading, strict=True):
        for index, image in zip(indices, images, strict=True):
            assert image.dtype == np.uint8 and image.shape == by_pil(index).shape
            assert np.abs(image.astype(int) - by_pil(index)).mean() <= 2


def test_views_are_what_the_geometry_gives_image_by_image(split: Split) -> None:
    centred = torch.cat(
        [batch.images_BVCHW for batch in loader(split, order=Sequential(), views=(("test_centre", 1),)).epoch(0)]
    )
    assert centred.shape == (COUNT, 1, 3, SIDE, SIDE)
    geometry = CentreCrop(SIDE)
    for number in range(COUNT):
        expected = geometry.apply(by_pil(number), np.empty(0, np.int64)).transpose(2, 0, 1)
        assert np.abs(centred[number, 0].numpy() * 255 - expected).mean() <= 2


def test_all_views_cost_one_decode(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = jpeg.decode

    def counted(*arguments: int) -> np.ndarray:
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(jpeg, "decode", counted)
    (batch,) = loader(split, batch_size=COUNT, views=(("test_window", 8),)).epoch(0)
    assert batch.images_BVCHW.shape == (COUNT, 8, 3, SIDE, SIDE) and len(calls) == COUNT
    for first in range(8):
        for second in range(first):
            assert not torch.equal(batch.images_BVCHW[:, first], batch.images_BVCHW[:, second])


@pytest.mark.parametrize("threads", [1, 3])
def test_neither_threads_nor_workers_nor_resuming_change_a_batch(split: Split, threads: int) -> None:
    alone = loader(split, batch_size=10, threads=2)
    whole = list(alone.epoch(1))
    assert alone.image_shape == (3, SIDE, SIDE) and len(whole) == 4
    rest = list(loader(split, batch_size=10, threads=threads).epoch(1, start_step=2))
    assert all(same(a, b) for a, b in zip(whole[2:], rest, strict=True))
    halves = [loader(split, batch_size=10, rank=rank, world=2, threads=threads).epoch(1) for rank in range(2)]
    for batch, *parts in zip(whole, *halves, strict=True):
        assert same(batch, Batch(*(torch.cat(pieces) for pieces in zip(*parts, strict=True))))
    shards = [loader(split, order=Sequential(), rank=rank, world=3, threads=threads) for rank in range(3)]
    seen = [number for shard in shards for batch in shard.epoch(0) for number in batch.ids_B.tolist()]
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda data: data[: len(data) // 2], "its image 7 cannot be decoded: Premature end"),
        (lambda data: b"\0" * len(data), "its image 7 cannot be decoded: Not a JPEG file"),
        (lambda data: encoded(8)[0], "its image 7 has 38 x 68 pixels, not 33 x 57"),
    ],
)
def test_a_damaged_image_is_named_where_batches_are_consumed(tmp_path: Path, damage: object, fault: str) -> None:
    files = list(FILES)
    files[7] = (damage(files[7][0]), *files[7][1:])  # type: ignore[operator]
    broken = split_of(tmp_path / "test.beton", files)
    batches = loader(broken, batch_size=4, order=Sequential()).epoch(0)
    assert next(batches).ids_B.tolist() == [0, 1, 2, 3]
    with pytest.raises(BetonError, match=rf"test\.beton is damaged: {fault}"):
        list(batches)


def test_warnings_that_leave_the_image_whole_are_passed_over(tmp_path: Path) -> None:
    data, height, width = FILES[0]
    padded = split_of(tmp_path / "test.beton", [(data[:-2] + b"\1\2\3" + data[-2:], height, width)])
    (batch,) = loader(padded, batch_size=1, views=(("test_centre", 1),)).epoch(0)
    expected = CentreCrop(SIDE).apply(by_pil(0), np.empty(0, np.int64)).transpose(2, 0, 1)
    assert np.abs(batch.images_BVCHW[0, 0].numpy() * 255 - expected).mean() <= 2


def test_an_epoch_left_early_leaves_no_threads(split: Split) -> None:
    before = threading.active_count()
    for _ in range(5):
        for _batch in loader(split, batch_size=2, threads=3).epoch(0):
            break
    assert threading.active_count() == before


def test_views_cut_here_and_augmented_elsewhere_are_the_same(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = loader(split, batch_size=COUNT).epoch(2)
    elsewhere = loader(split, batch_size=COUNT)
    monkeypatch.setattr(elsewhere, "device", SimpleNamespace(type="elsewhere"))
    monkeypatch.setattr(elsewhere, "_moved", lambda raw: raw)
    (found,) = elsewhere.epoch(2)
    assert same(found, expected)


def test_a_geometry_enlarges_images_stored_as_pixels(colour_split: Split) -> None:
    """As the transfer protocol does with CIFAR: 32 px enlarged before they are cut."""
    larger = loader(colour_split, batch_size=4, views=(("test_larger", 1),))
    assert larger.image_shape == (3, 40, 40)
    images = torch.cat([batch.images_BVCHW[:, 0] for batch in larger.epoch(0)])
    assert images.shape[1:] == (3, 40, 40)


def test_presets_that_do_not_fit_are_refused(split: Split, colour_split: Split) -> None:
    with pytest.raises(
        ValueError, match="images of imagenette have many sizes, and preset plain does not cut them to one"
    ):
        loader(split, views=(("plain", 1),))
    with pytest.raises(ValueError, match="all views should have one size, found presets that give 32 x 32 and 40 x 40"):
        loader(split, views=(("test_centre", 1), ("test_larger", 1)))
    with pytest.raises(BetonError, match="holds uncompressed images, not JPEG"):
        BetonReader(colour_split.path, "label", None)
    with pytest.raises(BetonError, match="holds compressed images"):
        BetonReader(split.path, "label", (3, 32, 32))
    with pytest.raises(ValueError, match="threads should be at least 1, found 0"):
        loader(split, threads=0)


def test_raw_images_may_be_cut_to_their_own_size(colour_split: Split) -> None:
    (batch,) = loader(colour_split, batch_size=400, order=Sequential(), views=VIEWS).epoch(0)
    pixels = torch.from_numpy(colour_split.manifest["pixels"].transpose(0, 3, 1, 2)) / 255
    assert torch.equal(batch.images_BVCHW[:, 2], pixels)
    assert not torch.equal(batch.images_BVCHW[:, 0], pixels)
