"""Where the files of each format lie in the folder that the official archive unpacks to."""

from dataclasses import dataclass
from pathlib import Path

from ..catalogue import DatasetEntry


@dataclass(frozen=True)
class Layout:
    """Files and folders that have to be there, in one of a few places under the folder that the user names."""

    markers: tuple[str, ...]
    places: tuple[str, ...] = ()


_DEVKIT = ("devkit/cars_meta.mat", "devkit/cars_train_annos.mat", "cars_train", "cars_test")
_AIRCRAFT = tuple(f"images_variant_{part}.txt" for part in ("train", "val", "trainval", "test"))
_IMAGENETTES = tuple(f"imagenette2{size}" for size in ("", "-320", "-160"))
LAYOUTS = {
    "svhn": (Layout(("train_32x32.mat", "test_32x32.mat")),),
    "cars196": (
        Layout(("cars_annos.mat", "car_ims"), ("cars196", "stanford_cars")),
        Layout(_DEVKIT, ("stanford_cars", "cars196")),
    ),
    "cub200": (Layout(("images.txt", "image_class_labels.txt", "classes.txt", "images"), ("CUB_200_2011",)),),
    "sop": (Layout(("Ebay_train.txt", "Ebay_test.txt"), ("Stanford_Online_Products",)),),
    "imagenet": (Layout(("train", "val"), ("ILSVRC/Data/CLS-LOC", *_IMAGENETTES)),),
    "tiny_imagenet": (Layout(("wnids.txt", "train", "val/val_annotations.txt", "val/images"), ("tiny-imagenet-200",)),),
    "food101": (Layout(("meta/train.txt", "meta/test.txt", "images"), ("food-101",)),),
    "pets": (Layout(("annotations/trainval.txt", "annotations/test.txt", "images"), ("oxford-iiit-pet",)),),
    "aircraft": (Layout((*_AIRCRAFT, "images"), ("data", "fgvc-aircraft-2013b/data")),),
    "dtd": (Layout(("labels/train1.txt", "labels/val1.txt", "labels/test1.txt", "images"), ("dtd", "dtd/dtd")),),
}


def find(entry: DatasetEntry, folder: Path) -> Path | None:
    """The folder at or under `folder` that holds what the format needs, or None."""
    for layout in LAYOUTS[entry.reader]:
        for place in ("", *layout.places):
            if all((folder / place / marker).exists() for marker in layout.markers):
                return folder / place
    return None


def unpacked(entry: DatasetEntry, folder: Path) -> Path:
    """As `find`.

    Raises:
        ValueError: something is missing; the message says what.
    """
    place = find(entry, folder)
    if place is not None:
        return place
    layouts = LAYOUTS[entry.reader]
    tried = [(layout, folder / place) for layout in layouts for place in ("", *layout.places)]
    layout, nearest = max(tried, key=lambda pair: sum((pair[1] / marker).exists() for marker in pair[0].markers))
    missing = [marker for marker in layout.markers if not (nearest / marker).exists()]
    raise ValueError(
        f"{', '.join(missing)} of {entry.name} missing in {nearest}; get the originals from {entry.origin}"
    )


def wanted(entry: DatasetEntry) -> str:
    """What has to be there, in words."""
    return " or ".join(", ".join(layout.markers) for layout in LAYOUTS[entry.reader])
