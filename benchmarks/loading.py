"""How fast batches come, beside copying memory, bare JPEG decoding, stock FFCV and torch's DataLoader.

`python -m benchmarks.loading --raw ROOT/cifar10 --jpeg FOLDER` takes a prepared set of raw colour images of 32 pixels
and a folder of JPEG images in folders by class; without them, smooth random images are made.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from data_prep.catalogue import entry
from data_prep.loading import Loader, Shuffled
from data_prep.prepare import open_split
from data_prep.prepared import Split

from . import loading_data as data
from . import loading_peers as peers

ROUNDS, SECONDS, BATCHES_BEFORE = 3, 1.2, 5
RAW_BATCH, JPEG_BATCH = 256, 64
THREADS = min(16, len(os.sched_getaffinity(0)))


class Contender(NamedTuple):
    """Something that gives batches for ever."""

    name: str
    batches: Iterator[Any]
    batch_size: int
    processes: Callable[[], Sequence[int]] | None = None
    """Other processes that work for it."""


def main(arguments: Sequence[str] = ()) -> None:
    """Prints one table: medians over interleaved rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--jpeg", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = data.raw_split(folder / "raw") if options.raw is None else prepared(options.raw)
        images = options.jpeg if options.jpeg is not None else data.jpeg_folder(folder / "images")
        encoded = data.encoded(images)
        jpeg = data.jpeg_split(folder / "jpeg.beton", encoded)
        torch.set_num_threads(1)
        print(f"{THREADS} cores; {raw.samples:,} raw images of 32 px, {jpeg.samples:,} JPEG images\n")
        tables = {"32 px raw": raw_contenders(raw), "224 px JPEG": jpeg_contenders(jpeg, images, encoded)}
        for contender in (contender for table in tables.values() for contender in table if contender.processes):
            next(contender.batches)  # forks, which should happen before there are threads
        for title, contenders in tables.items():
            print_table(title, contend(contenders))
        print("first batch, from opening the file, in a new process after the imports:")
        for split, views in (
            (raw, ("plain", "vmf_cifar", "dsf_cifar")),
            (jpeg, ("dsf_imagenet_knn", "imagenet_linear")),
        ):
            for view in views:
                print(f"  {split.entry.storage:5s}{view:20s}{first_batch_seconds(split, view):8.3f} s")


def prepared(path: Path) -> Split:
    return open_split(path.parent, path.name, "train_full")


def raw_contenders(split: Split) -> list[Contender]:
    shape = (RAW_BATCH, 32, 32, 3)
    pixels_NHWC = data.pixels_of(split)
    found = [Contender("memcpy of the uint8 batch", copies(shape), RAW_BATCH)]
    for preset, views in (("plain", 1), ("vmf_cifar", 1), ("vmf_cifar", 2), ("dsf_cifar", 8)):
        found.append(ours(split, preset, views, RAW_BATCH))
    stock = peers.forever(peers.stock_raw(split.path, RAW_BATCH, THREADS))
    found.append(Contender("stock FFCV, crop flip occlusion", stock, RAW_BATCH))
    for name, views in (("vmf_cifar", 1), ("vmf_cifar", 2), ("dsf_cifar", 8)):
        found.append(peer(name, peers.InMemory(pixels_NHWC, peers.transform(name), views), views, RAW_BATCH))
    return found


def jpeg_contenders(split: Split, images: Path, encoded: list[tuple[bytes, int, int]]) -> list[Contender]:
    found = [
        Contender("memcpy of the uint8 batch", copies((JPEG_BATCH, 224, 224, 3)), JPEG_BATCH),
        Contender("bare libjpeg-turbo decode", peers.bare_decodes(encoded, JPEG_BATCH, THREADS), JPEG_BATCH),
        Contender("ours, decoded (uint8)", peers.forever(peers.Decoded(split.path, JPEG_BATCH, THREADS)), JPEG_BATCH),
    ]
    for preset, views in (("dsf_imagenet_knn", 1), *(("imagenet_linear", views) for views in (1, 2, 8))):
        found.append(ours(split, preset, views, JPEG_BATCH))
    stock = peers.forever(peers.stock_jpeg(split.path, JPEG_BATCH, THREADS))
    found.append(Contender("stock FFCV, window flip", stock, JPEG_BATCH))
    for views in (1, 2, 8):
        dataset = peers.folder(images, peers.transform("imagenet_linear"), views)
        found.append(peer("imagenet_linear", dataset, views, JPEG_BATCH))
    return found


def ours(split: Split, preset: str, views: int, view_batch: int) -> Contender:
    size = view_batch // views
    loader = Loader(split, batch_size=size, order=Shuffled(), views=((preset, views),))

    def batches() -> Iterator[Any]:
        for number in count():
            yield from loader.epoch(number)

    return Contender(f"ours, {preset}, {views} view(s)", batches(), size)


def peer(preset: str, dataset: Any, views: int, view_batch: int) -> Contender:
    size = view_batch // views
    loader = peers.data_loader(dataset, size)

    def workers() -> Sequence[int]:
        return [worker.pid for worker in loader._iterator._workers]

    return Contender(f"DataLoader, {preset}, {views} view(s)", peers.forever(loader), size, workers)


def copies(shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    source, target = np.ones(shape, np.uint8), np.zeros(shape, np.uint8)
    while True:
        np.copyto(target, source)
        yield target


def contend(contenders: Sequence[Contender]) -> list[tuple[str, float, float]]:
    """(name, images per second, CPU microseconds per image) for each, the rounds of all interleaved."""
    rounds = [[measure(contender) for contender in contenders] for _ in range(ROUNDS)]
    for contender in contenders:
        if hasattr(contender.batches, "close"):
            contender.batches.close()
    medians = np.median(np.array(rounds), axis=0)
    return [(contender.name, *row) for contender, row in zip(contenders, medians.tolist(), strict=True)]


def measure(contender: Contender) -> tuple[float, float]:
    """Images per second and CPU microseconds per image, after what was prepared ahead has been used up."""
    for _ in range(BATCHES_BEFORE):
        next(contender.batches)
    start, cpu_start, batches = time.perf_counter(), cpu_seconds(contender), 0
    while (passed := time.perf_counter() - start) < SECONDS or batches < 3:
        next(contender.batches)
        batches += 1
    images = batches * contender.batch_size
    return images / passed, (cpu_seconds(contender) - cpu_start) / images * 1e6


def cpu_seconds(contender: Contender) -> float:
    """User and system time of all threads of this process and of those that work for the contender."""
    ticks = 0
    for process in contender.processes() if contender.processes else ():
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def print_table(title: str, rows: list[tuple[str, float, float]]) -> None:
    print(f"{title:42s}{'images/s':>12s}{'CPU us/image':>14s}")
    for name, rate, cpu in rows:
        print(f"  {name:40s}{rate:12,.0f}{cpu:14,.1f}")
    print(flush=True)


def first_batch_seconds(split: Split, preset: str) -> float:
    """Measured in a new process."""
    code = (
        "import sys; from benchmarks.loading import first_batch;"
        "print(first_batch(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))"
    )
    words = [sys.executable, "-c", code, str(split.path), split.entry.name, str(split.samples), preset]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def first_batch(path: str, dataset: str, samples: int, preset: str) -> float:
    """Seconds from opening a file to its first augmented batch."""
    split = Split(Path(path).parent, "train_full", entry(dataset), Path(path), None, samples, {})
    size = RAW_BATCH if split.entry.storage == "raw" else JPEG_BATCH
    start = time.perf_counter()
    batches = Loader(split, batch_size=size, order=Shuffled(), views=((preset, 1),)).epoch(0)
    next(batches)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1:])
