"""Tables of text: cells in the papers' notation, and lines of fixed width for a terminal."""

import math
from dataclasses import dataclass
from typing import Any

MISSING = "–"


@dataclass(frozen=True)
class Table:
    """Headings and rows of cells; the first `labels` columns name the row."""

    headings: list[str]
    rows: list[list[str]]
    labels: int = 1

    def text(self) -> str:
        """Lines of fixed width: labels to the left, values to the right."""
        lines = [self.headings, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]

        def join(cells: list[str]) -> str:
            aligned = [
                cell.ljust(width) if column < self.labels else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            return "  ".join(aligned).rstrip()

        rule = "  ".join("─" * width for width in widths)
        return "\n".join([join(self.headings), rule, *map(join, self.rows)])


@dataclass(frozen=True)
class BestTable:
    """The best row of each recipe beside the published one, what they reach, and how to read it."""

    title: str
    hyperparameters: Table
    """Two rows per recipe, "ours" and "published", in the columns of the paper's table."""
    results: Table
    """One row per recipe."""
    notes: list[str]

    @property
    def rows(self) -> list[list[str]]:
        return self.hyperparameters.rows

    def text(self) -> str:
        """The whole for a terminal."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join([self.title, self.hyperparameters.text(), self.results.text(), notes])


def cell(value: Any) -> str:
    """A hyperparameter as the papers print it: 0.05, 1×10^-5, True, and a dash for what does not apply."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}×10^{int(exponent)}"
    return str(value)


def percent(share: float | None, error: float | None = None) -> str:
    """A share as per cent with its standard error: 90.81 ± 0.29."""
    if share is None or math.isnan(share):
        return MISSING
    known = error is not None and not math.isnan(error)
    return f"{100 * share:.2f} ± {100 * error:.2f}" if known and error is not None else f"{100 * share:.2f}"
