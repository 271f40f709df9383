"""Reading the files of run and sweep folders, which are incomplete while a process writes them or after a kill."""

from pathlib import Path
from typing import Any

from pipelines.config import ConfigurationError
from pipelines.files import read_json


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
