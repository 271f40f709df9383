"""What is known of every data set: classes, images, splits, constants, licence and where the originals come from."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .class_names import CIFAR10, CIFAR100_COARSE, CIFAR100_FINE, DIGITS, FASHION

Constants = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation per channel, of pixels in [0, 1]."""


@dataclass(frozen=True)
class DatasetEntry:
    """One data set as its authors published it."""

    name: str
    """Its name on the command line and its folder's name under the root."""
    title: str
    reader: str
    """Format of the originals: "idx", "cifar" or "bundled" (see data_prep.sources)."""
    class_names: tuple[str, ...]
    channels: int
    image_size: int
    """Height and width in pixels; all images are square."""
    train_count: int
    test_count: int
    licence: str
    origin: str
    """Where the originals come from, for people."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Original file -> MD5 digest; of the unpacked content for idx files, as .gz wrappings differ."""
    normalisation: Mapping[str, Constants] = field(default_factory=dict)
    """Protocol ("vmf", "dsf") -> its constants."""
    extra_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further labels stored beside the images -> the names of their classes."""
    system_folder: Path | None = None
    """Where a Debian package puts the originals."""
    system_package: str | None = None

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return (self.channels, self.image_size, self.image_size)

    @property
    def splits(self) -> tuple[str, ...]:
        """`train_full` is the official training set; `train` and `validation` are its stratified 85 % and 15 %."""
        return ("train", "validation", "train_full", "test")

    def constants(self, protocol: str) -> Constants:
        """Normalisation constants of a protocol.

        Raises:
            ValueError: the data set has none for it.
        """
        if protocol not in self.normalisation:
            known = ", ".join(sorted(self.normalisation)) or "none"
            raise ValueError(
                f'data set {self.name} has no normalisation constants for the protocol "{protocol}"; it has: {known}'
            )
        return self.normalisation[protocol]

    def classes_of(self, labels: str) -> tuple[str, ...]:
        """Class names of the field `label` or of one of the extra labels.

        Raises:
            ValueError: no such labels.
        """
        if labels == "label":
            return self.class_names
        if labels not in self.extra_labels:
            allowed = ", ".join(("label", *self.extra_labels))
            raise ValueError(f'data set {self.name} has no labels "{labels}"; allowed: {allowed}')
        return self.extra_labels[labels]


_IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_CIFAR10_DSF: Constants = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))

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
        normalisation={"vmf": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), "dsf": _CIFAR10_DSF},
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
        normalisation={"vmf": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), "dsf": _CIFAR10_DSF},
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
)
CATALOGUE: dict[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}


def entry(name: str) -> DatasetEntry:
    """The catalogue's entry; hyphens are accepted for underscores.

    Raises:
        ValueError: no such data set; the message names the nearest ones.
    """
    key = name.strip().lower().replace("-", "_")
    if key in CATALOGUE:
        return CATALOGUE[key]
    near = difflib.get_close_matches(key, CATALOGUE, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(CATALOGUE)}"
    raise ValueError(f'unknown data set "{name}"; {hint}')
