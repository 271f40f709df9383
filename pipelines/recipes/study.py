"""A study: recipes that are searched over one grid and compared in one table."""

import itertools
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Study:
    """Recipes, the grid each of them is searched over, and the form of the table they fill."""

    title: str
    """What is reproduced."""
    recipes: tuple[str, ...]
    """One recipe per row of the table. Trials compete only with trials of their own recipe."""
    grid: dict[str, list[Any]]
    """Dotted field: values. Fields that a recipe does not have are left out for it."""
    columns: dict[str, str]
    """Heading of the table: dotted field."""

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the grid's values, the last field varying fastest."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]
