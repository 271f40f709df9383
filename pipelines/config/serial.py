"""Configurations as JSON and back, and changes by dotted field names; every fault is reported at once."""

import dataclasses
import difflib
import hashlib
import json
import types
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

C = TypeVar("C")


class ConfigurationError(ValueError):
    """One or more faults of a configuration, each a sentence for the user."""

    def __init__(self, faults: list[str]):
        self.faults = faults
        super().__init__("; ".join(faults))


def to_dict(config: Any) -> dict[str, Any]:
    """The configuration as plain JSON values. A member of a union carries its class name under "type"."""
    values: dict[str, Any] = {}
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            is_choice = len(_dataclasses_in(hints[field.name])) > 1
            value = ({"type": type(value).__name__} if is_choice else {}) | to_dict(value)
        values[field.name] = value
    return json.loads(json.dumps(values))


def from_dict(cls: type[C], values: dict[str, Any]) -> C:
    """The inverse of `to_dict`. Raises `ConfigurationError` with every unknown, missing or mistyped field."""
    found: list[str] = []
    config = _parse(cls, values, "", found)
    if found:
        raise ConfigurationError(found)
    return config


def change(config: C, changes: dict[str, Any]) -> C:
    """A copy of `config` with dotted fields replaced, for example {"optimizer.learning_rate": 0.1}."""
    values = to_dict(config)
    found: list[str] = []
    for name, value in changes.items():
        *parents, last = name.split(".")
        place = values
        for parent in parents:
            inner = place.get(parent)
            place = inner if isinstance(inner, dict) else {}
        if last not in place:
            found.append(f"{name} is not a field of this configuration{nearest(name, field_names(config))}")
        place[last] = value
    if found:
        raise ConfigurationError(found)
    return from_dict(type(config), values)


def get(config: Any, name: str, default: Any = None) -> Any:
    """The value of a dotted field, or `default` where the configuration has no such field."""
    for part in name.split("."):
        if not hasattr(config, part):
            return default
        config = getattr(config, part)
    return config


def field_names(config: Any, path: str = "") -> list[str]:
    """Dotted names of all leaf fields."""
    names: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        inner = dataclasses.is_dataclass(value)
        names += field_names(value, f"{path}{field.name}.") if inner else [f"{path}{field.name}"]
    return names


def digest(values: dict[str, Any]) -> str:
    """Eight hexadecimal digits that name a configuration in a folder name."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def nearest(given: str, known: list[str]) -> str:
    """The end of a sentence about a wrong name: the valid names nearest to it."""
    close = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    return f"; nearest: {', '.join(close)}" if close else ""


def _parse(cls: type[C], values: Any, path: str, found: list[str]) -> C:
    if not isinstance(values, dict):
        found.append(f"{path.rstrip('.') or 'the configuration'} must be an object with fields, not {values!r}")
        return cls.__new__(cls)
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values.keys() - fields.keys() - {"type"}:
        found.append(f"{path}{name} is not a field of {cls.__name__}{nearest(name, list(fields))}")
    arguments = {}
    for name, field in fields.items():
        if name in values:
            arguments[name] = _parse_value(hints[name], values[name], f"{path}{name}", found)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            found.append(f"{path}{name} is missing")
    return cls(**arguments) if not found else cls.__new__(cls)


def _parse_value(hint: Any, value: Any, name: str, found: list[str]) -> Any:
    if get_origin(hint) is Annotated:
        return _parse_value(get_args(hint)[0], value, name, found)
    if value is None and type(None) in get_args(hint):
        return None
    if choices := _dataclasses_in(hint):
        return _parse_choice(choices, value, name, found)
    if get_origin(hint) is tuple:
        return _parse_tuple(get_args(hint), value, name, found)
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
        return _parse_value(hint, value, name, found)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            found.append(f"{name} is {value!r}, allowed is one of {', '.join(map(str, get_args(hint)))}")
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        found.append(f"{name} is {value!r}, allowed is a value of type {hint.__name__}")
    return value


def _parse_choice(choices: list[type], value: Any, name: str, found: list[str]) -> Any:
    by_name = {choice.__name__: choice for choice in choices}
    if len(choices) == 1:
        return _parse(choices[0], value, f"{name}.", found)
    chosen = value.get("type") if isinstance(value, dict) else None
    if chosen not in by_name:
        found.append(f"{name}.type is {chosen!r}, allowed is one of {', '.join(by_name)}")
        return None
    return _parse(by_name[chosen], value, f"{name}.", found)


def _parse_tuple(parts: tuple[Any, ...], value: Any, name: str, found: list[str]) -> Any:
    repeated = len(parts) == 2 and parts[1] is Ellipsis
    if not isinstance(value, list | tuple) or (not repeated and len(value) != len(parts)):
        found.append(f"{name} is {value!r}, allowed is a list{'' if repeated else f' of {len(parts)} values'}")
        return value
    hints = [parts[0]] * len(value) if repeated else parts
    pairs = enumerate(zip(hints, value, strict=True))
    return tuple(_parse_value(hint, item, f"{name}[{i}]", found) for i, (hint, item) in pairs)


def _dataclasses_in(hint: Any) -> list[type]:
    if get_origin(hint) in (Union, types.UnionType, Annotated):
        return [inner for part in get_args(hint) for inner in _dataclasses_in(part)]
    return [hint] if isinstance(hint, type) and dataclasses.is_dataclass(hint) else []
