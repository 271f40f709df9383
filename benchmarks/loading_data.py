"""Images for the loading benchmark, made where none are given."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data_prep.beton import write_beton
from data_prep.beton_writer import write_jpeg_beton
from data_prep.catalogue import entry
from data_prep.loading import Loader, Sequential
from data_prep.prepared import Split

RAW_COUNT, JPEG_COUNT, CLASSES = 20_480, 768, 10


def smooth(rng: np.random.Generator, height: int, width: int) -> Image.Image:
    """Noise of three sizes: as a JPEG file about as large as a photograph."""
    total = np.zeros((height, width, 3))
    for cells, strength in ((4, 90), (16, 45), (64, 25)):
        noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8))
        total += strength / 128 * (np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC)) - 128.0)
    return Image.fromarray((128 + total).clip(0, 255).astype(np.uint8))


def raw_split(folder: Path) -> Split:
    """Images of 32 pixels, a few thousand different ones."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = np.stack([np.asarray(smooth(rng, 32, 32)) for _ in range(RAW_COUNT // 10)])
    path = folder / "train_full.beton"
    write_beton(path, np.tile(pixels, (10, 1, 1, 1)), np.arange(RAW_COUNT) % CLASSES)
    return Split(folder, "train_full", entry("cifar10"), path, None, RAW_COUNT, {})


def pixels_of(split: Split) -> NDArray[np.uint8]:
    """All images of a raw split: (N, H, W, C)."""
    batches = Loader(split, batch_size=1024, order=Sequential()).epoch(0)
    images = [(batch.images_BVCHW[:, 0] * 255).round().byte().permute(0, 2, 3, 1).numpy() for batch in batches]
    return np.concatenate(images)


def jpeg_folder(folder: Path) -> Path:
    """JPEG images of 224 to 288 pixels in folders by class."""
    rng = np.random.default_rng(0)
    for number in range(JPEG_COUNT):
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(224, 289, 2)
        smooth(rng, int(height), int(width)).save(path, quality=85)
    return folder


def encoded(images: Path) -> list[tuple[bytes, int, int]]:
    """The JPEG files of a folder of folders, with their heights and widths."""
    found = []
    for file in sorted(images.glob("*/*")):
        if file.suffix.lower() in (".jpg", ".jpeg"):
            with Image.open(file) as image:
                found.append((file.read_bytes(), image.height, image.width))
    if not found:
        raise ValueError(f"{images} holds no folders with JPEG images")
    return found


def jpeg_split(path: Path, files: list[tuple[bytes, int, int]]) -> Split:
    """JPEG files byte for byte."""
    write_jpeg_beton(path, files, np.arange(len(files)) % CLASSES)
    return Split(path.parent, "train_full", entry("imagenette"), path, None, len(files), {})
