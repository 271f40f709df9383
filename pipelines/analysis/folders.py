"""Reading the files of run and sweep folders, which are incomplete while a process writes them or after a kill."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.config import ConfigurationError


def is_run(path: Path) -> bool:
    return (path / "config.json").is_file()


def is_sweep(path: Path) -> bool:
    return (path / "plan.json").is_file()


def read_plan(sweep: Path) -> dict[str, Any]:
    """The plan of a sweep. Raises `ConfigurationError` if the folder holds none that can be read."""
    if not is_sweep(sweep):
        raise ConfigurationError([f"{sweep} is not a sweep folder: it has no plan.json"])
    plan: dict[str, Any] = read_json(sweep / "plan.json", {})
    return plan


def read_json(path: Path, default: Any) -> Any:
    """The values of a JSON file, or `default` if it is absent. Raises `ConfigurationError` if it is damaged."""
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ConfigurationError([f"{path} is damaged: {error}"]) from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines, none if it is absent. Raises `ConfigurationError` if it is damaged.

    A last line without its end is left out: its writer was killed, or is still writing.
    """
    if not path.is_file():
        return []
    *lines, _ = path.read_text().split("\n")
    try:
        return [json.loads(line) for line in lines if line]
    except ValueError as error:
        raise ConfigurationError([f"{path} is damaged: {error}"]) from None


def field_value(values: dict[str, Any], name: str) -> Any:
    """The value of a dotted field in a configuration's JSON form, or None where it has no such field.

    The JSON form is read as it is, so that a folder written before a field was added or renamed can still be read.
    """
    place: Any = values
    for part in name.split("."):
        if not isinstance(place, dict):
            return None
        place = place.get(part)
    return place


def replace_file(path: Path, write: Callable[[Path], Any]) -> Path:
    """Calls `write` with a temporary path beside `path`, then puts that file in its place: it is whole or absent."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
