"""What is known of one data set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Constants = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation per channel, of pixels in [0, 1]."""
Storage = Literal["raw", "jpeg"]
Validation = Literal["stratified", "classes", "official"]
SPLITS = ("train", "validation", "train_full", "test")


@dataclass(frozen=True)
class DatasetEntry:
    """One data set as its authors published it."""

    name: str
    """Its name on the command line and its folder's name under the root."""
    title: str
    reader: str
    """Format of the originals (see data_prep.sources); "corrupted": made from those of the data set `clean`."""
    class_names: tuple[str, ...]
    """In the order of the labels; empty where they are read off the originals (`class_count` says how many)."""
    channels: int
    image_size: int | None
    """Height and width in pixels of raw images, which are all square; None for images of many sizes."""
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
    storage: Storage = "raw"
    """Images are stored as pixels ("raw", up to 64 px), or as JPEG files of any size ("jpeg")."""
    shorter_edge: int | None = None
    """Larger JPEG images are reduced to this shorter edge; None leaves every image as it is."""
    validation: Validation = "stratified"
    """How `validation` is taken from `train_full`: 15 % of every class, whole classes, or as its authors did."""
    splits: tuple[str, ...] = SPLITS
    """`train_full` is the official training set, parted into `train` and `validation`; none where manifests say."""
    clean: str | None = None
    """The data set that a corrupted one is made from."""
    class_count: int = 0
    """Classes, where `class_names` is empty; of both sides together where classes are split."""

    @property
    def num_classes(self) -> int:
        return len(self.class_names) or self.class_count

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width).

        Raises:
            ValueError: the images have many sizes.
        """
        if self.image_size is None:
            raise ValueError(f"the images of {self.name} have no common shape")
        return (self.channels, self.image_size, self.image_size)

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
