"""Where the original files of a data set are on this machine, and fetching them where they are not."""

import socket
from collections.abc import Callable
from pathlib import Path

from . import sources
from .catalogue import DatasetEntry

_SECONDS_WITHOUT_ANSWER = 30.0
_TORCHVISION: dict[str, tuple[str, tuple[dict[str, str], ...]]] = {
    "mnist": ("MNIST", ({},)),
    "fashion_mnist": ("FashionMNIST", ({},)),
    "cifar10": ("CIFAR10", ({},)),
    "cifar100": ("CIFAR100", ({},)),
    "svhn": ("SVHN", ({"split": "train"}, {"split": "test"})),
    "imagenette": ("Imagenette", ({},)),
    "food101": ("Food101", ({},)),
    "pets": ("OxfordIIITPet", ({},)),
    "aircraft": ("FGVCAircraft", ({},)),
    "dtd": ("DTD", ({},)),
}
"""Data set -> the class in torchvision that downloads it, and the options of each call that this takes."""


def locate(entry: DatasetEntry, root: Path, source: Path | None, log: Callable[[str], None]) -> Path:
    """The folder of the originals: `source` if given, else a system package's, else `root`/originals, else a download.

    Raises:
        ValueError: they are nowhere and cannot be downloaded; the message says what the user can do.
    """
    if source is not None:
        if not source.is_dir():
            raise ValueError(f"the source folder {source} of {entry.name} is not a folder")
        return source
    if entry.reader == "bundled":
        return root
    downloads = root / "originals" / entry.name
    for folder in (entry.system_folder, downloads):
        if folder is not None and sources.complete(entry, folder):
            return folder
    if entry.name not in _TORCHVISION:
        raise ValueError(
            f"the originals of {entry.name} are not on this machine, and nothing downloads them by itself: give their "
            f"folder with --source DIR (needed: {sources.wanted_files(entry)}, from {entry.origin})"
        )
    log(f"{entry.name}: no originals on this machine, downloading to {downloads}")
    _download(entry, downloads)
    return downloads


def _download(entry: DatasetEntry, folder: Path) -> None:
    from torchvision import datasets

    name, calls = _TORCHVISION[entry.name]
    waited = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SECONDS_WITHOUT_ANSWER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for options in calls:
            getattr(datasets, name)(str(folder), download=True, **options)
    except (OSError, RuntimeError) as error:
        _remove_if_empty(folder)
        package = f"install the Debian package {entry.system_package}, " if entry.system_package else ""
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise ValueError(
            f"the originals of {entry.name} are not on this machine and could not be downloaded ({reason}): {package}"
            f"give their folder with --source DIR (needed: {sources.wanted_files(entry)}, from {entry.origin}), "
            "or connect to a network"
        ) from error
    finally:
        socket.setdefaulttimeout(waited)


def _remove_if_empty(folder: Path) -> None:
    for path in (*sorted(folder.rglob("*"), reverse=True), folder, folder.parent):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
