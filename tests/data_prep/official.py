"""Small originals in the official formats, and the catalogue entries that expect them."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from data_prep.catalogue import DatasetEntry, entry


def picture(path: Path, value: int, size: tuple[int, int] = (90, 70), mode: str = "RGB", **options: object) -> Path:
    """Writes an image file of (width, height) whose content depends on `value`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(value)
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8)).resize(size, Image.Resampling.BILINEAR)
    small.convert(mode).save(path, **options)
    return path


def class_folders(folder: Path, names: Sequence[str], images: int, suffix: str = ".jpg", **options: object) -> None:
    for label, name in enumerate(names):
        for number in range(images):
            picture(folder / name / f"{name}_{number}{suffix}", 100 * label + number, **options)


def lines(path: Path, rows: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")


def expecting(name: str, classes: int, train: int, test: int, **changes: object) -> DatasetEntry:
    return dataclasses.replace(
        entry(name), class_names=(), class_count=classes, train_count=train, test_count=test, **changes
    )


def svhn(folder: Path) -> DatasetEntry:
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, count in (("train_32x32.mat", 70), ("test_32x32.mat", 20)):
        labels = (np.arange(count) % 10 + 1).astype(np.uint8)
        savemat(folder / name, {"X": rng.integers(0, 256, (32, 32, 3, count), np.uint8), "y": labels[:, None]})
        files[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    return dataclasses.replace(entry("svhn"), files=files, train_count=70, test_count=20)


def _annotations(rows: Sequence[tuple[object, ...]], fields: Sequence[str]) -> np.ndarray:
    table = np.empty((1, len(rows)), [(field, object) for field in fields])
    for index, row in enumerate(rows):
        table[0, index] = row
    return table


def _names(classes: int) -> np.ndarray:
    names = np.empty((1, classes), object)
    names[0] = [f"Make {number} Coupe 2012" for number in range(1, classes + 1)]
    return names


def cars196(folder: Path, devkit: bool = False) -> DatasetEntry:
    """20 classes, three images each; every third one is in the official test set, which is not used."""
    rows = [(index + 1, index % 20 + 1, index % 3 == 0) for index in range(60)]
    if not devkit:
        for number, label, _ in rows:
            picture(folder / "car_ims" / f"{number:06}.jpg", label)
        boxes = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")
        table = [(f"car_ims/{n:06}.jpg", 1, 1, 9, 9, label, int(test)) for n, label, test in rows]
        annotations = _annotations(table, ("relative_im_path", *boxes, "class", "test"))
        savemat(folder / "cars_annos.mat", {"annotations": annotations, "class_names": _names(20)})
        return expecting("cars196", 20, 30, 30)
    (folder / "devkit").mkdir(parents=True)
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": _names(20)})
    for part, file in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        chosen = [(label, f"{n:05}.jpg") for n, label, test in rows if test == (part == "test")]
        for label, name in chosen:
            picture(folder / f"cars_{part}" / name, label)
        savemat(folder / file, {"annotations": _annotations(chosen, ("class", "fname"))})
    return expecting("cars196", 20, 30, 30)


def cub200(folder: Path) -> DatasetEntry:
    root = folder / "CUB_200_2011"
    images = [(label, f"{label:03}.Bird_{label}/Bird_{label}_{n}.jpg") for label in range(1, 21) for n in range(4)]
    for number, (_, path) in enumerate(images):
        picture(root / "images" / path, number)
    lines(root / "images.txt", [f"{number} {path}" for number, (_, path) in enumerate(images, start=1)])
    lines(root / "image_class_labels.txt", [f"{n} {label}" for n, (label, _) in enumerate(images, start=1)])
    lines(root / "classes.txt", [f"{label} {label:03}.Bird_{label}" for label in range(1, 21)])
    return expecting("cub200", 20, 40, 40)


def sop(folder: Path) -> DatasetEntry:
    root = folder / "Stanford_Online_Products"
    title, number = "image_id class_id super_class_id path", 0
    for part, classes in (("train", range(1, 21)), ("test", range(21, 41))):
        rows = []
        for label in classes:
            for view in range(3):
                number += 1
                path = f"chair_final/{label}_{view}.JPG"
                picture(root / path, number, format="JPEG")
                rows.append(f"{number} {label} 4 {path}")
        lines(root / f"Ebay_{part}.txt", [title, *rows])
    return expecting("sop", 40, 60, 60)


WNIDS = ("n01440764", "n02102040", "n02979186")


def imagenet(folder: Path, name: str = "imagenet") -> DatasetEntry:
    class_folders(folder / "train", (*WNIDS, "n09999999"), 8, ".JPEG")
    class_folders(folder / "val", (*WNIDS, "n09999999"), 3, ".JPEG")
    if name == "imagenet":
        return expecting("imagenet", 4, 32, 12)
    return dataclasses.replace(entry(name), class_names=WNIDS, train_count=24, test_count=9)


def tiny_imagenet(folder: Path) -> DatasetEntry:
    root = folder / "tiny-imagenet-200"
    for label, wnid in enumerate(WNIDS):
        for number in range(8):
            path = root / "train" / wnid / "images" / f"{wnid}_{number}.JPEG"
            picture(path, 10 * label + number, (64, 64), "L" if number == 0 else "RGB")
    lines(root / "wnids.txt", [WNIDS[2], WNIDS[0], WNIDS[1]])
    rows = []
    for number in range(6):
        picture(root / "val" / "images" / f"val_{number}.JPEG", 90 + number, (64, 64))
        rows.append(f"val_{number}.JPEG\t{WNIDS[number % 3]}\t0\t32\t44\t62")
    lines(root / "val" / "val_annotations.txt", rows)
    return expecting("tiny_imagenet", 3, 24, 6)


def food101(folder: Path) -> DatasetEntry:
    root = folder / "food-101"
    for part, count in (("train", 8), ("test", 2)):
        images = [f"{dish}/{part}{n}" for dish in ("apple_pie", "waffles") for n in range(count)]
        for number, image in enumerate(images):
            picture(root / "images" / f"{image}.jpg", number)
        lines(root / "meta" / f"{part}.txt", images)
    return expecting("food101", 2, 16, 4)


def pets(folder: Path) -> DatasetEntry:
    for part, count in (("trainval", 8), ("test", 2)):
        rows = []
        for label, breed in enumerate(("Abyssinian", "american_bulldog", "Bengal"), start=1):
            for number in range(count):
                picture(folder / "images" / f"{breed}_{part}{number}.jpg", 10 * label + number)
                rows.append(f"{breed}_{part}{number} {label} {1 + label % 2} 1")
        lines(folder / "annotations" / f"{part}.txt", rows)
    return expecting("pets", 3, 24, 6)


def aircraft(folder: Path) -> DatasetEntry:
    root = folder / "fgvc-aircraft-2013b" / "data"
    rows = {
        part: [f"{number:07} {('707-320', 'F-16A/B', 'DHC-8 100')[number % 3]}" for number in numbers]
        for part, numbers in {"train": range(0, 6), "val": range(6, 12), "test": range(12, 18)}.items()
    }
    rows["trainval"] = sorted(rows["train"] + rows["val"], reverse=True)
    for part, listed in rows.items():
        lines(root / f"images_variant_{part}.txt", listed)
    for number in range(18):
        picture(root / "images" / f"{number:07}.jpg", number)
    return expecting("aircraft", 3, 12, 6)


def dtd(folder: Path) -> DatasetEntry:
    root = folder / "dtd"
    for start, part in ((0, "train"), (3, "val"), (6, "test")):
        images = [f"{kind}/{kind}_{start + n:04}.jpg" for kind in ("banded", "blotchy") for n in range(3)]
        for number, image in enumerate(images):
            picture(root / "images" / image, 10 * start + number)
        lines(root / "labels" / f"{part}1.txt", images)
    return expecting("dtd", 2, 12, 6)


FORMATS = {make.__name__: make for make in (cars196, cub200, sop, imagenet, food101, pets, aircraft, dtd)}
"""Data set -> what makes originals of image files that are stored as JPEG."""
