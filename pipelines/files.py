"""Files that are whole or absent, and folders that one process holds at a time."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .config import ConfigurationError


@contextlib.contextmanager
def hold(folder: Path, refusal: str) -> Iterator[None]:
    """An exclusive lock on a folder. Raises `ConfigurationError` with `refusal` if another process has it."""
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError([refusal]) from None
        yield


def remove_leftovers(folder: Path) -> None:
    """Removes what `replace_file` could not finish because its process was killed; for the folder's holder."""
    for temporary in folder.glob(".*.[0-9]*"):
        temporary.unlink(missing_ok=True)


def write_json(path: Path, values: Any) -> None:
    """Writes a JSON file that is whole or absent."""
    replace_file(path, lambda temporary: temporary.write_text(json.dumps(values, indent=2) + "\n"))


def replace_file(path: Path, write: Callable[[Path], Any]) -> Path:
    """Calls `write` with a temporary path in the same folder, puts that file in the place of `path`, returns `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


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
