"""Writing .beton files, and everything that can be wrong with one."""

import io
import os
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep import beton, beton_writer
from data_prep.beton import BetonError, check, digest, verify_digest, write_beton
from data_prep.beton_writer import write_jpeg_beton
from data_prep.ffcv_import import import_ffcv


def images(count: int = 50, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, 16, 16, channels), np.uint8)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "digits" / "train_full.beton"
    path.parent.mkdir()
    write_beton(path, images(), np.arange(50))
    return path


def test_the_same_images_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.beton", "b.beton"):
        info = write_beton(tmp_path / name, images(), np.arange(50), {"coarse_label": np.zeros(50, np.int64)})
    assert info.fields == {"image": "rgb image", "label": "int", "coarse_label": "int"}
    assert info.samples == 50 and info == check(tmp_path / "b.beton")
    assert digest(tmp_path / "a.beton") == digest(tmp_path / "b.beton")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.beton", "b.beton"]


def test_missing_empty_truncated_and_foreign_files_are_named(good: Path) -> None:
    content = good.read_bytes()
    size = len(content)
    for damaged, fault in (
        (b"", "holds only 0 bytes"),
        (content[: size // 2], "is truncated"),
        (content[:-20], "is truncated"),
        (content[:-24], "is truncated"),
        (b"\x89PNG" + content[4:], "is not a .beton file"),
        (content[:16] + bytes(8) + content[24:], "is half-written"),
        (content[:8] + bytes(8) + content[16:], "holds no images"),
        (content[:4] + b"\x01\0\0\0" + content[8:], "page size"),
        (content[:-8] + b"\xff" * 8, "is damaged"),
        (content[:-24] + b"\xff" * 8 + content[-16:], "is damaged"),
    ):
        good.write_bytes(damaged)
        with pytest.raises(BetonError, match=fault) as caught:
            check(good)
        assert str(good) in str(caught.value)
        assert f"hyperspherical prepare digits --root {good.parent.parent}" in str(caught.value)
    good.unlink()
    with pytest.raises(BetonError, match="is missing"):
        check(good)
    with pytest.raises(BetonError, match="is missing"):
        verify_digest(good, "0" * 64)


def test_one_flipped_bit_is_found(good: Path) -> None:
    expected = digest(good)
    verify_digest(good, expected)
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 1
    good.write_bytes(content)
    check(good)
    with pytest.raises(BetonError, match="has changed: its SHA-256 digest should be"):
        verify_digest(good, expected)


def test_a_lost_piece_of_a_page_is_found(good: Path) -> None:
    content = good.read_bytes()
    table = int.from_bytes(content[16:24], "little")
    shorter = table - 512
    good.write_bytes(content[:16] + shorter.to_bytes(8, "little") + content[24:shorter] + content[table:])
    with pytest.raises(BetonError, match="pages"):
        check(good)


def test_an_error_while_writing_surfaces_and_leaves_nothing(good: Path) -> None:
    before = good.read_bytes()

    def fail(done: int) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_beton(good, images(), np.arange(50), progress=fail)
    assert good.read_bytes() == before and list(good.parent.iterdir()) == [good]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing beyond `size` fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [1 << 12, 5 << 19, (1 << 23) + 100])
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    with largest_file(size), pytest.raises((OSError, BetonError)):
        write_beton(tmp_path / "a.beton", images(12_000), np.arange(12_000))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_dead_writers_are_removed(tmp_path: Path) -> None:
    dead, alive = tmp_path / ".a.beton.tmp4194999", tmp_path / f".b.beton.tmp{os.getppid()}"
    dead.touch()
    alive.touch()
    write_beton(tmp_path / "c.beton", images(), np.arange(50))
    assert not dead.exists() and alive.exists()


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    path, labels = tmp_path / "a.beton", np.arange(50)
    for pixels, columns, fault in (
        (images().astype(np.float32), {}, "should be uint8"),
        (images()[..., :2], {}, "1 or 3"),
        (images()[:0], {}, "no images"),
        (images()[:49], {}, "field label should hold 49 integers"),
        (images(), {"a_name_of_17_long": labels}, "1 to 16 ASCII characters"),
        (images(), {"extra": labels / 2}, "integers"),
    ):
        with pytest.raises(ValueError, match=fault):
            write_beton(path, pixels, labels, columns)
    assert not path.exists()


def test_the_error_survives_a_trip_between_processes(tmp_path: Path) -> None:
    error = BetonError(tmp_path, "is gone", beton.rebuild_command(tmp_path))
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, BetonError) and str(copy) == str(error)


def stored_images(path: Path) -> tuple[list[bytes], np.ndarray]:
    """The stored bytes and the labels of every image, through ffcv's own reader."""
    import_ffcv()
    from ffcv.reader import Reader

    reader, content = Reader(str(path)), path.read_bytes()
    sizes = dict(zip(reader.alloc_table["ptr"].tolist(), reader.alloc_table["size"].tolist(), strict=True))
    starts = reader.metadata["f0"]["data_ptr"].tolist()
    return [content[start : start + sizes[start]] for start in starts], reader.metadata["f1"].copy()


def jpegs(count: int, seed: int = 0) -> list[tuple[bytes, int, int]]:
    rng = np.random.default_rng(seed)
    return [(rng.bytes(int(rng.integers(200, 9_000))), int(h), int(w)) for h, w in rng.integers(30, 500, (count, 2))]


def test_jpegs_are_stored_byte_for_byte(tmp_path: Path) -> None:
    encoded, labels = jpegs(30), np.arange(30) % 7
    taken: list[int] = []
    info = write_jpeg_beton(tmp_path / "a.beton", iter(encoded), labels, {"extra": labels * 2}, taken.append)
    assert info == check(tmp_path / "a.beton") and taken == list(range(1, 31))
    assert info.fields == {"image": "rgb image", "label": "int", "extra": "int"} and info.samples == 30
    contents, stored = stored_images(tmp_path / "a.beton")
    assert contents == [content for content, _, _ in encoded] and np.array_equal(stored, labels)
    from ffcv.reader import Reader

    rows = Reader(str(tmp_path / "a.beton")).metadata
    assert rows["f0"]["height"].tolist() == [height for _, height, _ in encoded]
    assert rows["f0"]["width"].tolist() == [width for _, _, width in encoded]
    assert not rows["f0"]["mode"].any() and np.array_equal(rows["f2"], labels * 2)
    write_jpeg_beton(tmp_path / "b.beton", encoded, labels, {"extra": labels * 2})
    assert digest(tmp_path / "a.beton") == digest(tmp_path / "b.beton")


def test_pages_grow_with_the_largest_jpeg(tmp_path: Path) -> None:
    large = (np.random.default_rng(1).bytes((1 << 23) + 5), 5_000, 4_000)
    encoded = [*jpegs(5), large, *jpegs(5, 1), (b"x" * 2_000_000, 9, 9), (b"y" * 2_000_000, 9, 9)]
    info = write_jpeg_beton(tmp_path / "a.beton", encoded, np.arange(13))
    assert info.page_size == 1 << 24
    assert stored_images(tmp_path / "a.beton")[0] == [content for content, _, _ in encoded]


def test_ffcv_decodes_what_was_stored(tmp_path: Path) -> None:
    import_ffcv()
    from ffcv.fields.decoders import CenterCropRGBImageDecoder
    from ffcv.loader import Loader
    from ffcv.pipeline.compiler import Compiler

    buffers = [io.BytesIO() for _ in range(3)]
    for shade, buffer in enumerate(buffers):
        Image.new("RGB", (40 + shade, 40), (90 * shade, 0, 200)).save(buffer, "JPEG", quality=95)
    encoded = [(buffer.getvalue(), 40, 40 + shade) for shade, buffer in enumerate(buffers)]
    write_jpeg_beton(tmp_path / "a.beton", encoded, np.array([4, 5, 6]))
    pipelines = {"image": [CenterCropRGBImageDecoder((32, 32), 1)]}
    Compiler.set_enabled(False)
    try:
        loader = Loader(str(tmp_path / "a.beton"), batch_size=3, num_workers=1, drop_last=False, pipelines=pipelines)
        ((images, labels),) = [(images.copy(), labels) for images, labels in loader]
    finally:
        Compiler.set_enabled(True)
    assert labels.ravel().tolist() == [4, 5, 6]
    assert np.abs(images[:, 9, 9].astype(int) - [[0, 0, 200], [90, 0, 200], [180, 0, 200]]).max() <= 3


def test_jpegs_are_left_out_with_their_labels(tmp_path: Path) -> None:
    encoded = jpegs(5)
    info = write_jpeg_beton(tmp_path / "a.beton", [encoded[0], None, *encoded[2:]], np.arange(5))
    contents, labels = stored_images(tmp_path / "a.beton")
    assert info.samples == 4 and labels.tolist() == [0, 2, 3, 4] and contents[1] == encoded[2][0]


def test_jpegs_that_cannot_be_stored_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beton_writer, "_LARGEST_PAGE", 1 << 20)
    for encoded, fault in (
        ([], "there are 0 images to write, for 2 labels"),
        ([None, None], "there are 0 images to write"),
        (jpegs(1), "there are 1 images to write, for 2 labels"),
        (jpegs(3), "more images than their 2 labels"),
        ([jpegs(1)[0], (b"x", 70_000, 5)], r"image 1 cannot be stored: it has 5 x 70000 pixels in 1 bytes"),
        ([(bytes(2 << 20), 5, 5)] * 2, "at most 1,048,576 bytes"),
    ):
        with pytest.raises(ValueError, match=fault):
            write_jpeg_beton(tmp_path / "a.beton", encoded, np.arange(2))
    with largest_file(1 << 21), pytest.raises(OSError):
        write_jpeg_beton(tmp_path / "a.beton", jpegs(2), np.arange(2))
    assert list(tmp_path.iterdir()) == []
