"""Original image files of all kinds, as they are stored."""

import io
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.encoding import Faults, Unreadable, as_jpeg, as_pixels, each

from .official import picture

TURNED = 6
"""The EXIF orientation of a camera held upright."""


def decoded(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_bytes_pass_through(tmp_path: Path, mode: str, progressive: bool) -> None:
    path = picture(tmp_path / "a.jpg", 1, mode=mode, quality=40, progressive=progressive)
    for edge in (None, 70, 400):
        image = as_jpeg(path, edge)
        assert image.original and image.content == path.read_bytes()
        assert (image.height, image.width) == (70, 90)


def test_larger_images_get_the_shorter_edge(tmp_path: Path) -> None:
    wide, tall = picture(tmp_path / "a.jpg", 1, (301, 200)), picture(tmp_path / "b.jpg", 2, (100, 355))
    assert (as_jpeg(wide, 64).height, as_jpeg(wide, 64).width) == (64, 96)
    reduced = as_jpeg(tall, 64)
    assert (reduced.height, reduced.width) == (227, 64) and not reduced.original
    expected = np.asarray(Image.open(tall).resize((64, 227), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(decoded(reduced.content) - expected).mean() < 2


def test_images_are_turned_as_their_camera_was(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = TURNED
    path = picture(tmp_path / "a.jpg", 3, exif=exif, quality=95)
    image = as_jpeg(path, None)
    assert (image.height, image.width, image.original) == (90, 70, False)
    upright = np.rot90(np.asarray(Image.open(path)), -1).astype(int)
    assert np.abs(decoded(image.content) - upright).mean() < 1
    assert Image.open(io.BytesIO(image.content)).getexif().get(0x0112) is None


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("a.jpg", "CMYK", {"quality": 95}),
        ("a.png", "RGB", {}),
        ("a.png", "RGBA", {}),
        ("a.png", "LA", {}),
        ("a.png", "P", {}),
        ("a.gif", "P", {"transparency": 0}),
        ("a.png", "1", {}),
        ("a.bmp", "RGB", {}),
        ("a.webp", "RGB", {"lossless": True}),
    ],
)
def test_other_formats_are_encoded_anew(tmp_path: Path, name: str, mode: str, options: dict[str, object]) -> None:
    path = picture(tmp_path / name, 4, mode=mode, **options)
    image = as_jpeg(path, None)
    assert not image.original and (image.height, image.width) == (70, 90)
    with Image.open(path) as opened:
        expected = np.asarray(opened.convert("RGBA").convert("RGB")).astype(int)
    dithered = mode in ("1", "P")
    assert np.abs(decoded(image.content) - expected).mean() < (20 if dithered else 3)


def test_sixteen_bits_a_pixel_are_scaled_not_cut_off(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65_535, 70 * 90).reshape(70, 90).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / "a.png")
    pixels = decoded(as_jpeg(tmp_path / "a.png", None).content)
    assert np.abs(pixels[..., 0] - (ramp >> 8)).max() <= 3


def test_what_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    good = picture(tmp_path / "good.jpg", 1).read_bytes()
    for content, reason in (
        (good[: len(good) // 2], "truncated"),
        (b"nonsense", "not an image"),
        (b"", "not an image"),
    ):
        (tmp_path / "bad.jpg").write_bytes(content)
        with pytest.raises(Unreadable, match=reason):
            as_jpeg(tmp_path / "bad.jpg", None)
    with pytest.raises(Unreadable, match="does not exist"):
        as_jpeg(tmp_path / "none.jpg", None)
    with pytest.raises(Unreadable, match="90 x 70 pixels, not 64 x 64"):
        as_pixels(tmp_path / "good.jpg", 64, 3)
    Image.new("L", (70_000, 1)).save(tmp_path / "long.png")
    with pytest.raises(Unreadable, match="allowed are 65,535 a side"):
        as_jpeg(tmp_path / "long.png", None)


def test_a_slightly_damaged_jpeg_is_stored_as_it_decodes(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.jpg", 5, (400, 300), quality=95)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4] = b"\xff\xd3\xff\xd3"  # markers that do not belong there
    path.write_bytes(content)
    image = as_jpeg(path, None)
    assert not image.original and "cannot be decoded" in image.damage
    assert as_jpeg(picture(tmp_path / "b.jpg", 5), None).damage == ""


@pytest.mark.parametrize("workers", [1, 2])
def test_images_come_in_order_and_faults_are_counted(tmp_path: Path, workers: int) -> None:
    paths = [picture(tmp_path / f"{number}.png", number, (8, 8)) for number in range(40)]
    paths[7].write_bytes(b"nonsense")
    faults = Faults(allowed=1)
    images = list(each(partial(as_pixels, size=8, channels=3), paths, workers, faults))
    assert images[7] is None and faults.found == {str(paths[7]): "it is not an image"}
    for number, image in enumerate(images):
        assert number == 7 or np.array_equal(image, np.asarray(Image.open(paths[number])))
    with pytest.raises(ValueError, match=r"7\.png: it is not an image; .*--skip-unreadable N"):
        list(each(partial(as_pixels, size=8, channels=3), paths, workers, Faults()))


def dies(path: Path) -> None:
    os._exit(1)


def test_a_process_that_dies_is_an_error_and_no_hang(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(40)]
    with pytest.raises(ValueError, match="a process that decodes images has died"):
        list(each(dies, paths, 2, Faults()))
