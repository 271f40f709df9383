"""Batches: exact pixels, orders, sharding, determinism, resuming, and every way a reader can be left or fail."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from data_prep import loading
from data_prep.beton import BetonError
from data_prep.loading import Batch, Episodes, Loader, Sequential, Shuffled
from data_prep.prepare import open_split, prepare
from data_prep.prepared import Split
from data_prep.reading import BetonReader
from data_prep.sources import read


def digits(root: Path, split: str = "train_full", **options: object) -> Loader:
    options = {"batch_size": 60, "order": Shuffled(), "seed": 3, **options}
    return Loader(open_split(root, "digits", split), **options)  # type: ignore[arg-type]


def same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def reading_threads() -> int:
    return sum(type(thread).__name__ == "Reading" for thread in threading.enumerate())


@pytest.mark.parametrize("split", ["train", "validation", "train_full", "test"])
def test_grey_images_come_back_exactly_and_in_order(prepared_root: Path, split: str) -> None:
    opened = open_split(prepared_root, "digits", split)
    images = getattr(read(opened.entry, Path()), "test" if split == "test" else "train")
    wanted = np.arange(opened.samples) if opened.indices is None else opened.indices
    loader = Loader(opened, batch_size=64, order=Sequential())
    batches = list(loader.epoch(0))
    assert len(batches) == loader.steps_per_epoch and loader.num_samples == opened.samples
    assert loader.num_classes == 10 and loader.image_shape == (1, 8, 8)
    assert torch.cat([batch.ids_B for batch in batches]).tolist() == wanted.tolist()
    assert torch.cat([batch.labels_B for batch in batches]).tolist() == images.labels_N[wanted].tolist()
    found = torch.cat([batch.images_BVCHW for batch in batches])
    expected = torch.from_numpy(images.images_NHWC[wanted].transpose(0, 3, 1, 2)) / 255
    assert torch.equal(found[:, 0], expected)
    assert {batch.labels_B.dtype for batch in batches} == {torch.int64}


def test_colour_images_and_extra_labels_come_back_exactly(colour_split: Split) -> None:
    loader = Loader(colour_split, batch_size=96, order=Shuffled(), labels="coarse_label", drop_last=False)
    assert loader.num_classes == 20
    pixels = colour_split.manifest["pixels"]
    seen = []
    for batch in loader.epoch(0):
        expected = torch.from_numpy(pixels[batch.ids_B.numpy()].transpose(0, 3, 1, 2)) / 255
        assert torch.equal(batch.images_BVCHW[:, 0], expected)
        assert torch.equal(batch.labels_B, batch.ids_B % 100 // 5)
        seen += batch.ids_B.tolist()
    assert sorted(seen) == list(range(400))


def test_batches_that_are_kept_do_not_change(colour_split: Split) -> None:
    loader = Loader(colour_split, batch_size=10, order=Sequential())
    kept = list(loader.epoch(0))
    for batch, again in zip(kept, loader.epoch(0), strict=True):
        assert same(batch, again)


def test_the_same_epoch_again_from_another_loader_and_from_any_step(prepared_root: Path) -> None:
    views = (("vmf_cifar", 1), ("dsf_cifar_no_randaugment", 2))
    whole = list(digits(prepared_root, views=views).epoch(2))
    assert whole[0].images_BVCHW.shape == (60, 3, 1, 8, 8)
    for step in (0, 1, 20, len(whole)):
        rest = list(digits(prepared_root, views=views).epoch(2, start_step=step))
        assert len(rest) == len(whole) - step
        assert all(same(a, b) for a, b in zip(whole[step:], rest, strict=True))
    other_epoch = next(digits(prepared_root, views=views).epoch(3))
    other_seed = next(digits(prepared_root, views=views, seed=4).epoch(2))
    assert not torch.equal(whole[0].ids_B, other_epoch.ids_B) and not torch.equal(whole[0].ids_B, other_seed.ids_B)
    first, second, third = whole[0].images_BVCHW.unbind(1)
    assert not torch.equal(second, third) and not torch.equal(first, second)


@pytest.mark.parametrize("order", [Shuffled(), Episodes(5, 12, 8)])
def test_two_workers_see_the_batches_of_one(prepared_root: Path, order: loading.Order) -> None:
    views = (("vmf_cifar", 2),)
    alone = digits(prepared_root, order=order, views=views)
    parts = [digits(prepared_root, order=order, views=views, rank=rank, world=2) for rank in range(2)]
    assert {part.steps_per_epoch for part in parts} == {alone.steps_per_epoch}
    for whole, *halves in zip(alone.epoch(1), *(part.epoch(1) for part in parts), strict=True):
        assert same(whole, Batch(*(torch.cat(pieces) for pieces in zip(*halves, strict=True))))


def test_sequential_shards_are_exact_and_augmented_as_by_one_worker(prepared_root: Path) -> None:
    views = (("vmf_cifar", 1),)
    options = {"split": "test", "order": Sequential(), "views": views, "batch_size": 99}
    images = torch.cat([batch.images_BVCHW for batch in digits(prepared_root, **options).epoch(0)])
    seen = []
    for rank in range(3):
        for batch in digits(prepared_root, **options, rank=rank, world=3).epoch(0):
            assert torch.equal(batch.images_BVCHW, images[batch.ids_B])
            seen += batch.ids_B.tolist()
    assert sorted(seen) == list(range(360))


def test_an_epoch_that_is_left_early_ends_its_thread(prepared_root: Path) -> None:
    before, threads = reading_threads(), torch.get_num_threads()
    loader = digits(prepared_root)
    for _ in range(20):
        for batch in loader.epoch(0):
            assert len(batch.labels_B) == 60
            break
    iterator = loader.epoch(0)
    next(iterator)
    assert reading_threads() == before + 1
    loader.close()
    assert reading_threads() == before and torch.get_num_threads() == threads
    with pytest.raises(RuntimeError, match="stop here"):
        for _ in loader.epoch(0):
            raise RuntimeError("stop here")
    assert reading_threads() == before
    assert len(list(loader.epoch(0))) == loader.steps_per_epoch  # and it is still good


def test_an_error_in_the_thread_reaches_the_consumer(prepared_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = loading.augment

    def fail_at_third(*arguments: object) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("in the thread")
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "augment", fail_at_third)
    got = []
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        for batch in digits(prepared_root).epoch(0):
            got.append(batch)
    assert len(got) == 2 and reading_threads() == 0


def test_an_index_out_of_range_is_caught(prepared_root: Path) -> None:
    opened = open_split(prepared_root, "digits", "test")
    reader = BetonReader(opened.path, "label", (1, 8, 8))
    for wrong in (360, -1):
        with pytest.raises(AssertionError, match="out of range"):
            reader.batches([np.array([0, wrong])], lambda number, images, labels: images)
    beyond = Split(opened.root, "test", opened.entry, opened.path, np.array([0, 360]), 2, opened.manifest)
    with pytest.raises(ValueError, match="indices of split test do not fit"):
        Loader(beyond, batch_size=2, order=Sequential())


def test_files_that_hold_something_else_are_named(prepared_root: Path, colour_split: Split) -> None:
    with pytest.raises(BetonError, match=r"holds images of shape \(32, 32, 3\), not \(28, 28, 1\)"):
        BetonReader(colour_split.path, "label", (1, 28, 28))
    with pytest.raises(BetonError, match='has no fields "image" and "coarse_label"'):
        BetonReader(open_split(prepared_root, "digits", "test").path, "coarse_label", (1, 8, 8))
    with pytest.raises(BetonError, match="is missing"):
        loading.open_reader(Path("/nowhere/x/test.beton"), "label", (1, 8, 8))


def test_a_file_that_is_cut_short_or_prepared_anew_while_in_use(tmp_path: Path) -> None:
    folder = prepare("digits", tmp_path, log=lambda line: None)
    loader = digits(tmp_path, "test", order=Sequential())
    first = list(loader.epoch(0))
    prepare("digits", tmp_path, force=True, log=lambda line: None)
    assert all(same(a, b) for a, b in zip(first, loader.epoch(0), strict=True))
    loader = digits(tmp_path, "test", order=Sequential())
    path = folder / "test.beton"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(BetonError, match="was cut short while it was in use"):
        next(loader.epoch(1))


@pytest.mark.parametrize(("local_workers", "threads"), [("1", 12), ("4", 3), ("64", 1), ("", 12)])
def test_workers_on_one_machine_part_its_cores(
    monkeypatch: pytest.MonkeyPatch, prepared_root: Path, local_workers: str, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(12))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local_workers)
    assert digits(prepared_root)._threads == threads
    assert digits(prepared_root, threads=2)._threads == 2


def test_wrong_arguments_are_named(prepared_root: Path) -> None:
    for options, fault in (
        ({"batch_size": 61, "world": 2}, "divide by 2"),
        ({"views": ()}, "at least 1"),
        ({"views": (("plain", 0),)}, "at least 1"),
        ({"views": (("plane", 1),)}, 'unknown preset "plane"; nearest: plain'),
        ({"labels": "coarse_label"}, "allowed: label"),
    ):
        with pytest.raises(ValueError, match=fault):
            digits(prepared_root, **options)
    with pytest.raises(ValueError, match=r"start_step lie in 0\.\.23"):
        digits(prepared_root).epoch(0, 24)


LAZY = """
import sys
import data_prep, data_prep.catalogue, data_prep.prepare
assert not {"torch", "ffcv", "numba", "sklearn", "torchvision"} & set(sys.modules), "imported too early"
"""


def test_importing_the_package_imports_nothing_heavy() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=60)
