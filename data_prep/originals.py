"""Where the original files of a data set are on this machine, and fetching them where they are not."""

import socket
from collections.abc import Callable
from pathlib import Path

from . import sources
from .catalogue import DatasetEntry

_SECONDS_WITHOUT_ANSWER = 30.0


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
    log(f"{entry.name}: no originals on this machine, downloading to {downloads}")
    _download(entry, downloads)
    return downloads


def _download(entry: DatasetEntry, folder: Path) -> None:
    from torchvision import datasets

    classes = {
        "mnist": datasets.MNIST,
        "fashion_mnist": datasets.FashionMNIST,
        "cifar10": datasets.CIFAR10,
        "cifar100": datasets.CIFAR100,
    }
    waited = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SECONDS_WITHOUT_ANSWER)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        classes[entry.name](str(folder), download=True)
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
