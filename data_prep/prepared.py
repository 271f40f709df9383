"""A prepared data set: a folder of .beton files, index lists and the manifest that vouches for them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beton import BetonError, BetonInfo, check, digest, rebuild_command, verify_digest
from .catalogue import CATALOGUE, DatasetEntry, entry, key_of

MANIFEST = "manifest.json"
FORMAT = 1
"""Raised whenever data prepared by older versions has to be prepared again."""


@dataclass(frozen=True, eq=False)
class Split:
    """One split of a prepared data set: a .beton file and which of its images belong."""

    root: Path
    name: str
    """"train", "validation", "train_full" or "test"; of corrupted sets, what the manifest lists."""
    entry: DatasetEntry
    """With the class names of this split."""
    path: Path
    """The .beton file."""
    indices: NDArray[np.int64] | None
    """Ascending indices into the file; None for all of it."""
    samples: int
    """Images in the split."""
    manifest: dict[str, Any]


@dataclass(frozen=True)
class Description:
    """What a prepared data set, or one file of it, holds."""

    name: str
    folder: Path
    files: tuple[BetonInfo, ...]
    splits: dict[str, int]
    """Images per split."""
    source: str
    """Folder of the originals."""


def check_prepared(root: Path, name: str) -> dict[str, Any]:
    """The manifest of a prepared data set whose files are all there and whole, in a few milliseconds.

    Raises:
        ValueError: no such data set in the catalogue.
        BetonError: it is not prepared, or a file is missing, damaged or of another size than the manifest says.
    """
    folder = Path(root).absolute() / key_of(name)
    if not folder.is_dir():
        entry(name)  # an unknown name is a better reason
        raise BetonError(folder, "is missing: the data set is not prepared", rebuild_command(folder))
    manifest = _read_manifest(folder)
    for file, facts in manifest["files"].items():
        path = folder / file
        if not path.is_file():
            raise BetonError(path, "is missing", rebuild_command(path))
        size = path.stat().st_size
        if path.suffix == ".beton":
            check(path)
        if size != facts["bytes"]:
            raise BetonError(path, f"should hold {facts['bytes']:,} bytes, found {size:,}", rebuild_command(path))
    return manifest


def open_split(root: Path, name: str, split: str, verify: bool = True) -> Split:
    """Opens a split for reading.

    Args:
        root: the folder that data sets are prepared in.
        name: the data set; hyphens are accepted for underscores.
        split: "train" (85 %), "validation" (15 %), "train_full" (the official training set) or "test"; of corrupted
            sets, what the manifest lists.
        verify: compare checksums too, once per process and file (0.2 s for 170 MB).

    Raises:
        ValueError: unknown data set or split.
        BetonError: the data set is not prepared, or a file of it is missing, damaged or changed.
    """
    known = CATALOGUE.get(key_of(name))
    if known is not None and known.splits:
        _check_split(known.name, split, known.splits)
    manifest = check_prepared(root, name)
    folder = Path(root).absolute() / key_of(name)
    _check_split(folder.name, split, manifest["splits"])
    facts = manifest["splits"][split]
    dataset = described_entry(manifest, split)
    used = [file for file in (facts["file"], facts["indices"]) if file is not None]
    if verify:
        for file in used:
            verify_digest(folder / file, manifest["files"][file]["sha256"])
    indices = _read_indices(folder / facts["indices"]) if facts["indices"] is not None else None
    return Split(Path(root).absolute(), split, dataset, folder / facts["file"], indices, facts["count"], manifest)


def _check_split(name: str, split: str, allowed: Iterable[str]) -> None:
    if split not in allowed:
        raise ValueError(f'data set {name} has no split "{split}"; allowed: {", ".join(allowed)}')


def described_entry(manifest: dict[str, Any], split: str | None = None) -> DatasetEntry:
    """The entry of a prepared data set, also of the user's own, with the class names of a split."""
    known = CATALOGUE.get(manifest["name"])
    if known is None:
        own = manifest["own"]
        known = DatasetEntry(
            name=manifest["name"],
            title=manifest["title"],
            reader="folders",
            class_names=tuple(manifest["class_names"]),
            channels=own["channels"],
            image_size=own["image_size"],
            train_count=manifest["splits"]["train_full"]["count"],
            test_count=manifest["splits"]["test"]["count"],
            licence=manifest["licence"],
            origin=manifest["origin"],
            normalisation={name: (tuple(mean), tuple(std)) for name, (mean, std) in own["normalisation"].items()},
            storage=own["storage"],
            shorter_edge=own["shorter_edge"],
            validation=own["validation"],
        )
    facts = manifest["splits"][split] if split is not None else {}
    names = tuple(facts.get("class_names", manifest["class_names"]))
    return known if names == known.class_names else replace(known, class_names=names)


def describe(path: Path) -> Description:
    """What a prepared data set's folder, or one .beton file in it, holds; contents are not compared.

    Raises:
        BetonError: something is missing or damaged.
    """
    path = Path(path).absolute()
    folder = path if path.is_dir() else path.parent
    if path.suffix == ".beton":
        check(path)  # before anything is said about its neighbours
    manifest = _read_manifest(folder)
    files = [folder / file for file in manifest["files"] if file.endswith(".beton")]
    if path.suffix == ".beton":
        if path not in files:
            raise BetonError(path, f"is not in {folder / MANIFEST}", rebuild_command(folder))
        files = [path]
    splits = {name: facts["count"] for name, facts in manifest["splits"].items() if folder / facts["file"] in files}
    infos = tuple(check(file) for file in files)
    return Description(manifest["name"], folder, infos, splits, manifest["source"]["folder"])


def verify(path: Path) -> Description:
    """Reads every byte of a prepared data set's folder, or of one .beton file in it, and compares the checksums.

    Raises:
        BetonError: something is missing, damaged or changed, down to a single bit.
    """
    description = describe(path)
    folder = description.folder
    listed = _read_manifest(folder)["files"]
    files = listed if Path(path).is_dir() else [info.path.name for info in description.files]
    for file in files:
        if not (folder / file).is_file():
            raise BetonError(folder / file, "is missing", rebuild_command(folder))
        found, expected = digest(folder / file), listed[file]["sha256"]
        if found != expected:
            fault = f"has changed: its SHA-256 digest should be {expected[:16]}..., found {found[:16]}..."
            raise BetonError(folder / file, fault, rebuild_command(folder))
    return description


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        complete = isinstance(manifest, dict) and {"format", "name", "splits", "files", "source"} <= manifest.keys()
    except FileNotFoundError as error:
        raise BetonError(path, "is missing", rebuild_command(folder)) from error
    except (OSError, ValueError) as error:
        raise BetonError(path, "cannot be read as JSON", rebuild_command(folder)) from error
    if not complete or not all(isinstance(manifest[part], dict) for part in ("splits", "files", "source")):
        raise BetonError(path, "is not a manifest of a prepared data set", rebuild_command(folder))
    if manifest["format"] != FORMAT:
        fault = f"has format {manifest['format']}, this version reads format {FORMAT}"
        raise BetonError(path, fault, rebuild_command(folder))
    return manifest


def _read_indices(path: Path) -> NDArray[np.int64]:
    try:
        indices = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BetonError(path, "is not a list of indices", rebuild_command(path)) from error
    return np.asarray(indices, dtype=np.int64)
