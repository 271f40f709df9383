"""Every data set that is known by name: classes, images, splits, constants, licence and where the originals are."""

import difflib
from dataclasses import replace
from pathlib import Path

from .class_names import CIFAR10, CIFAR100_COARSE, CIFAR100_FINE, DIGITS, FASHION, IMAGENET100, IMAGENETTE
from .dataset_entry import SPLITS, Constants, DatasetEntry

__all__ = ["CATALOGUE", "IMAGENET_CONSTANTS", "SPLITS", "Constants", "DatasetEntry", "entry"]

_IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_CIFAR10_DSF: Constants = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
IMAGENET_CONSTANTS: Constants = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_OPEN_SET = {"vmf": IMAGENET_CONSTANTS, "imagenet": IMAGENET_CONSTANTS}
_IMAGENET = {"vmf": IMAGENET_CONSTANTS, "dsf": IMAGENET_CONSTANTS, "imagenet": IMAGENET_CONSTANTS}
# DSF's script for transfer normalises every set with CIFAR-10's constants.
_TRANSFER = {"dsf": _CIFAR10_DSF, "imagenet": IMAGENET_CONSTANTS}
# The open-set recipes begin with a resize to 256. ImageNet's median shorter edge is 375, so a limit of 400 leaves most
# files as they are; FFCV's own ImageNet recipe limits sides to about as much. A random crop of a fifth of the area, the
# smallest of the transfer recipe, has 229 pixels a side if the shorter edge has 512: no crop to 224 is ever enlarged.
_OPEN_SET_EDGE, _IMAGENET_EDGE, _TRANSFER_EDGE = 256, 400, 512

_ENTRIES = (
    DatasetEntry(
        name="mnist",
        title="MNIST handwritten digits",
        reader="idx",
        class_names=DIGITS,
        channels=1,
        image_size=28,
        train_count=60_000,
        test_count=10_000,
        licence="CC BY-SA 3.0",
        origin="http://yann.lecun.com/exdb/mnist/ (torchvision downloads a mirror)",
        files=dict(
            zip(
                _IDX_FILES,
                (
                    "6bbc9ace898e44ae57da46a324031adb",
                    "a25bea736e30d166cdddb491f175f624",
                    "2646ac647ad5339dbf082846283269ea",
                    "27ae3e4e09519cfbb04c329615203637",
                ),
                strict=True,
            )
        ),
    ),
    DatasetEntry(
        name="fashion_mnist",
        title="Fashion-MNIST articles of clothing",
        reader="idx",
        class_names=FASHION,
        channels=1,
        image_size=28,
        train_count=60_000,
        test_count=10_000,
        licence="MIT",
        origin="https://github.com/zalandoresearch/fashion-mnist",
        files=dict(
            zip(
                _IDX_FILES,
                (
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                ),
                strict=True,
            )
        ),
        system_folder=Path("/usr/share/datasets/fashion-mnist"),
        system_package="dataset-fashion-mnist",
    ),
    DatasetEntry(
        name="cifar10",
        title="CIFAR-10",
        reader="cifar",
        class_names=CIFAR10,
        channels=3,
        image_size=32,
        train_count=50_000,
        test_count=10_000,
        licence="no licence stated; free for research",
        origin="https://www.cs.toronto.edu/~kriz/cifar.html (cifar-10-python.tar.gz)",
        files={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
        normalisation={"vmf": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), **_TRANSFER},
    ),
    DatasetEntry(
        name="cifar100",
        title="CIFAR-100",
        reader="cifar",
        class_names=CIFAR100_FINE,
        channels=3,
        image_size=32,
        train_count=50_000,
        test_count=10_000,
        licence="no licence stated; free for research",
        origin="https://www.cs.toronto.edu/~kriz/cifar.html (cifar-100-python.tar.gz)",
        files={"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        normalisation={"vmf": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), **_TRANSFER},
        extra_labels={"coarse_label": CIFAR100_COARSE},
    ),
    DatasetEntry(
        name="digits",
        title="Optical recognition of handwritten digits (scikit-learn's copy)",
        reader="bundled",
        class_names=DIGITS,
        channels=1,
        image_size=8,
        train_count=1_437,
        test_count=360,
        licence="CC BY 4.0",
        origin="https://archive.ics.uci.edu/dataset/80, bundled with scikit-learn: nothing to download",
        normalisation={"vmf": ((0.3049,), (0.3757,)), "dsf": ((0.3049,), (0.3757,))},
    ),
    DatasetEntry(
        name="svhn",
        title="SVHN, street view house numbers (cropped digits)",
        reader="svhn",
        class_names=DIGITS,
        channels=3,
        image_size=32,
        train_count=73_257,
        test_count=26_032,
        licence="non-commercial use only",
        origin="http://ufldl.stanford.edu/housenumbers/ (format 2: train_32x32.mat, test_32x32.mat)",
        files={
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        },
    ),
    DatasetEntry(
        name="cars196",
        title="Stanford Cars (Cars196), parted by class",
        reader="cars196",
        class_names=(),
        class_count=196,
        channels=3,
        image_size=None,
        train_count=8_054,
        test_count=8_131,
        licence="non-commercial research (terms of ImageNet)",
        origin="https://ai.stanford.edu/~jkrause/cars/car_dataset.html (cars_annos.mat and car_ims, or the devkit)",
        normalisation=_OPEN_SET,
        storage="jpeg",
        shorter_edge=_OPEN_SET_EDGE,
        validation="classes",
    ),
    DatasetEntry(
        name="cub200",
        title="Caltech-UCSD Birds 200-2011, parted by class",
        reader="cub200",
        class_names=(),
        class_count=200,
        channels=3,
        image_size=None,
        train_count=5_864,
        test_count=5_924,
        licence="non-commercial research",
        origin="https://www.vision.caltech.edu/datasets/cub_200_2011/ (CUB_200_2011.tgz)",
        normalisation=_OPEN_SET,
        storage="jpeg",
        shorter_edge=_OPEN_SET_EDGE,
        validation="classes",
    ),
    DatasetEntry(
        name="sop",
        title="Stanford Online Products, parted by class",
        reader="sop",
        class_names=(),
        class_count=22_634,
        channels=3,
        image_size=None,
        train_count=59_551,
        test_count=60_502,
        licence="research use (images from eBay)",
        origin="https://cvgl.stanford.edu/projects/lifted_struct/ (Stanford_Online_Products.zip)",
        normalisation=_OPEN_SET,
        storage="jpeg",
        shorter_edge=_OPEN_SET_EDGE,
        validation="classes",
    ),
    DatasetEntry(
        name="imagenet",
        title="ImageNet (ILSVRC 2012)",
        reader="imagenet",
        class_names=(),
        class_count=1_000,
        channels=3,
        image_size=None,
        train_count=1_281_167,
        test_count=50_000,
        licence="non-commercial research (terms of ImageNet)",
        origin="https://image-net.org/download.php, unpacked to train/WNID and val/WNID",
        normalisation=_IMAGENET,
        storage="jpeg",
        shorter_edge=_IMAGENET_EDGE,
    ),
    DatasetEntry(
        name="imagenet100",
        title="ImageNet-100 (100 classes of ImageNet, the list of CMC and DSF)",
        reader="imagenet",
        class_names=IMAGENET100,
        channels=3,
        image_size=None,
        train_count=126_689,
        test_count=5_000,
        licence="non-commercial research (terms of ImageNet)",
        origin="taken from a folder of ImageNet (https://image-net.org/download.php) with train/WNID and val/WNID",
        normalisation=_IMAGENET,
        storage="jpeg",
        shorter_edge=_IMAGENET_EDGE,
    ),
    DatasetEntry(
        name="imagenette",
        title="Imagenette (10 easy classes of ImageNet, second edition)",
        reader="imagenet",
        class_names=IMAGENETTE,
        channels=3,
        image_size=None,
        train_count=9_469,
        test_count=3_925,
        licence="Apache 2.0; images under the terms of ImageNet",
        origin="https://github.com/fastai/imagenette (imagenette2.tgz, or its 320 px or 160 px edition)",
        normalisation=_IMAGENET,
        storage="jpeg",
        shorter_edge=_IMAGENET_EDGE,
    ),
    DatasetEntry(
        name="tiny_imagenet",
        title="Tiny ImageNet",
        reader="tiny_imagenet",
        class_names=(),
        class_count=200,
        channels=3,
        image_size=64,
        train_count=100_000,
        test_count=10_000,
        licence="non-commercial research (terms of ImageNet)",
        origin="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        normalisation=_IMAGENET,
    ),
    DatasetEntry(
        name="food101",
        title="Food-101",
        reader="food101",
        class_names=(),
        class_count=101,
        channels=3,
        image_size=None,
        train_count=75_750,
        test_count=25_250,
        licence="research use (images from Foodspotting)",
        origin="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/ (food-101.tar.gz)",
        normalisation=_TRANSFER,
        storage="jpeg",
        shorter_edge=_TRANSFER_EDGE,
    ),
    DatasetEntry(
        name="pets",
        title="Oxford-IIIT Pets",
        reader="pets",
        class_names=(),
        class_count=37,
        channels=3,
        image_size=None,
        train_count=3_680,
        test_count=3_669,
        licence="CC BY-SA 4.0",
        origin="https://www.robots.ox.ac.uk/~vgg/data/pets/ (images.tar.gz, annotations.tar.gz)",
        normalisation=_TRANSFER,
        storage="jpeg",
        shorter_edge=_TRANSFER_EDGE,
    ),
    DatasetEntry(
        name="aircraft",
        title="FGVC-Aircraft (100 variants)",
        reader="aircraft",
        class_names=(),
        class_count=100,
        channels=3,
        image_size=None,
        train_count=6_667,
        test_count=3_333,
        licence="non-commercial research",
        origin="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/ (fgvc-aircraft-2013b.tar.gz)",
        normalisation=_TRANSFER,
        storage="jpeg",
        shorter_edge=_TRANSFER_EDGE,
        validation="official",
    ),
    DatasetEntry(
        name="dtd",
        title="Describable Textures (split 1)",
        reader="dtd",
        class_names=(),
        class_count=47,
        channels=3,
        image_size=None,
        train_count=3_760,
        test_count=1_880,
        licence="research use",
        origin="https://www.robots.ox.ac.uk/~vgg/data/dtd/ (dtd-r1.0.1.tar.gz)",
        normalisation=_TRANSFER,
        storage="jpeg",
        shorter_edge=_TRANSFER_EDGE,
        validation="official",
    ),
)
CATALOGUE: dict[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}


def _corrupted(clean: str, title: str, licence: str, origin: str) -> DatasetEntry:
    """The corrupted edition of the test images of a data set; its splits are the manifest's."""
    return replace(
        CATALOGUE[clean],
        name=f"{clean}_c",
        title=title,
        reader="corrupted",
        clean=clean,
        licence=licence,
        origin=origin,
        files={},
        train_count=0,
        shorter_edge=None,
        extra_labels={},
        splits=(),
    )


_GENERATED = "or made here from the test images of"
for _entry in (
    _corrupted(
        "cifar10", "CIFAR-10-C", "CC BY 4.0", f"https://zenodo.org/records/2535967 (*.npy), {_GENERATED} cifar10"
    ),
    _corrupted(
        "cifar100", "CIFAR-100-C", "CC BY 4.0", f"https://zenodo.org/records/3555552 (*.npy), {_GENERATED} cifar100"
    ),
    _corrupted(
        "imagenet", "ImageNet-C", "CC BY 4.0", f"https://zenodo.org/records/2235448 (*.tar), {_GENERATED} imagenet"
    ),
    _corrupted(
        "imagenet100",
        "ImageNet-100-C (the 100 classes of ImageNet-C)",
        "CC BY 4.0",
        f"taken from https://zenodo.org/records/2235448, {_GENERATED} imagenet100",
    ),
):
    CATALOGUE[_entry.name] = _entry


def key_of(name: str) -> str:
    """A data set's name as its folder is called."""
    return name.strip().lower().replace("-", "_")


def entry(name: str) -> DatasetEntry:
    """The catalogue's entry; hyphens are accepted for underscores.

    Raises:
        ValueError: no such data set; the message names the nearest ones.
    """
    key = key_of(name)
    if key in CATALOGUE:
        return CATALOGUE[key]
    near = difflib.get_close_matches(key, CATALOGUE, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(CATALOGUE)}"
    raise ValueError(f'unknown data set "{name}"; {hint}')
