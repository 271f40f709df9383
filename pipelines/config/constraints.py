"""Ranges that a field may carry, and the walk that reports every value outside its range at once."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Range:
    """An interval for a number: `low <= value <= high`, each end left out with `open_low` / `open_high`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def contains(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below and not math.isnan(value)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"a number {'above' if self.open_low else 'of at least'} {self.low:g}"
        left, right = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"a number in {left}{self.low:g}, {self.high:g}{right}"


Positive = Annotated[float, Range(0, math.inf, open_low=True, open_high=True)]
NonNegative = Annotated[float, Range(0, math.inf, open_high=True)]
Share = Annotated[float, Range(0, 1, open_high=True)]
OpenShare = Annotated[float, Range(0, 1, open_low=True, open_high=True)]
Count = Annotated[int, Range(1)]
CountFromZero = Annotated[int, Range(0)]


def faults(config: Any, path: str = "") -> list[str]:
    """Every fault of a configuration and of the dataclasses inside it, one sentence each: field, value, allowed range.

    A dataclass adds faults that concern several of its fields with a method `own_faults() -> list[str]`.
    """
    found: list[str] = []
    hints = get_type_hints(type(config), include_extras=True)
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{path}{field.name}"
        if dataclasses.is_dataclass(value):
            found += faults(value, f"{name}.")
        for allowed in _ranges(hints[field.name]):
            if isinstance(value, int | float) and not allowed.contains(value):
                found.append(f"{name} is {value}, allowed is {allowed}")
    if hasattr(config, "own_faults"):
        found += [f"{path}{fault}" for fault in config.own_faults()]
    return found


def _ranges(hint: Any) -> list[Range]:
    if get_origin(hint) is Annotated:
        return [item for item in get_args(hint)[1:] if isinstance(item, Range)]
    return [item for part in get_args(hint) for item in _ranges(part)]
