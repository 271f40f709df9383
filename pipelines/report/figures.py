"""Figures of a search: learning curves, accuracy against hyperparameters, what became of each trial. Data URIs.

Every panel shows one objective, and panels share their axes, so that objectives can be compared at a glance.
"""

import math
from typing import TYPE_CHECKING, Any

from pipelines.analysis.tables import cell

from .style import BAD, FAINT, INK, SOFT, WIDTH, print_style, svg

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Frames = dict[str, "pandas.DataFrame"]
"""Label of the objective: its trials."""
COLUMNS = 5


def accuracy_floor(frame: "pandas.DataFrame") -> float:
    """Where accuracy axes begin: two points below the best five sixths of the trials.

    A few trials that learn nothing would otherwise press all others together.
    """
    accuracies = frame["accuracy"].dropna()
    return max(float(accuracies.min()) - 0.005, float(accuracies.quantile(1 / 6)) - 0.02)


def learning_curves(frames: Frames, best: dict[str, str], colours: dict[str, str], floor: float) -> str:
    """Validation accuracy per epoch, every trial thin and the best of each objective thick."""
    with print_style():
        figure, panels = _panels(len(frames), height=2.7)
        for axes, (label, frame) in zip(panels, frames.items(), strict=False):
            for trial in frame.to_dict("records"):
                epochs, curve = range(1, trial["epochs"] + 1), [100 * value for value in trial["accuracy_curve"]]
                is_best = trial["trial"] == best.get(label)
                width, strength = (2.4, 1.0) if is_best else (0.8, 0.4)
                axes.plot(epochs, curve, color=colours[label], lw=width, alpha=strength)
                if trial["published"]:
                    axes.plot(epochs, curve, color=INK, lw=1.1, ls=(0, (3, 2)))
                if curve and not is_best:
                    mark = "o" if trial["status"] == "complete" else "x" if trial["status"] == "diverged" else "."
                    axes.plot(epochs[-1], curve[-1], mark, color=colours[label], ms=3, alpha=0.6)
            _integer_axis(axes, max((int(f["epochs"].max()) for f in frames.values()), default=1))
            axes.set_title(label, color=colours[label])
            axes.set_xlabel("epoch")
        panels[0].set_ylim(bottom=100 * floor)
        panels[0].set_ylabel("validation accuracy, %")
        return svg(figure)


def hyperparameters(
    frames: Frames, fields: dict[str, str], published: dict[str, dict[str, Any]], colours: dict[str, str], floor: float
) -> str:
    """Best validation accuracy of every trial against each searched field; one row of panels per field."""
    from matplotlib import pyplot

    with print_style():
        figure, grid = pyplot.subplots(
            len(fields), len(frames), sharey=True, squeeze=False, layout="constrained",
            figsize=(_width(len(frames)), 1.95 * len(fields) + 0.3),
        )  # fmt: skip
        for row, (heading, field) in enumerate(fields.items()):
            values = sorted({value for frame in frames.values() for value in frame[field].dropna()})
            for axes, (label, frame) in zip(grid[row], frames.items(), strict=True):
                _strip(axes, frame.dropna(subset="accuracy"), field, values, colours[label], floor)
                marked = [f"[{cell(v)}]" if published[label][field] == v else cell(v) for v in values]
                axes.set_xticks(range(len(values)), marked)
                axes.set_xlabel(heading)
                if row == 0:
                    axes.set_title(label, color=colours[label])
            grid[row][0].set_ylabel("validation\naccuracy, %")
        grid[0][0].set_ylim(bottom=100 * floor - 1)
        return svg(figure)


def fates(frames: Frames, rungs: list[int], colours: dict[str, str]) -> str:
    """One bar per trial, as long as its epochs and coloured by what became of it."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    with print_style():
        tallest = max(len(frame) for frame in frames.values())
        figure, panels = _panels(len(frames), height=max(1.6, 0.13 * tallest + 0.9))
        for axes, (label, frame) in zip(panels, frames.items(), strict=False):
            ordered = frame.sort_values(["epochs", "accuracy"], ascending=False, na_position="last")
            for place, trial in enumerate(ordered.to_dict("records")):
                finished = trial["status"] == "complete"
                axes.barh(place, trial["epochs"], height=0.72, color=colours[label] if finished else FAINT)
                mark = {"diverged": "x", "failed": "s", "interrupted": ">", "waiting": "|"}.get(trial["status"])
                if mark:
                    axes.plot(
                        trial["epochs"] + 0.12, place, mark, color=BAD if mark in "xs" else SOFT, ms=4, clip_on=False
                    )
            for rung in rungs:
                axes.axvline(rung, color=SOFT, lw=0.7, ls=(0, (2, 3)), zorder=0)
            axes.set_title(label, color=colours[label])
            axes.set_xlabel("epochs")
            axes.grid(False)
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            _integer_axis(axes, max(rungs), first=0)
        panels[0].set_ylim(tallest - 0.4, -0.6)
        seen = set().union(*[frame["status"].unique() for frame in frames.values()])
        marks = {"diverged": ("x", BAD), "failed": ("s", BAD), "interrupted": (">", SOFT), "waiting": ("|", SOFT)}
        keys: list[Any] = [Patch(color=INK, label="complete (in the objective's colour)")]
        keys += [Patch(color=FAINT, label="stopped by ASHA")]
        keys += [Line2D([], [], ls="", marker=m, color=c, ms=5, label=s) for s, (m, c) in marks.items() if s in seen]
        keys += [Line2D([], [], color=SOFT, lw=0.8, ls=(0, (2, 3)), label="rung")]
        figure.legend(handles=keys, loc="outside lower left", ncols=len(keys))
        return svg(figure)


def run_curves(records: list[dict[str, Any]], colour: str) -> str:
    """Training loss, and accuracy and calibration error where they were measured, per epoch of one run."""
    names = {"loss": ("training loss", 1), "accuracy": ("validation accuracy, %", 100)}
    names |= {"calibration_error": ("calibration error (ECE), %", 100)}
    shown = {name: form for name, form in names.items() if all(name in record for record in records)}
    with print_style():
        figure, panels = _panels(len(shown), height=2.7, share=False)
        epochs = [record["epoch"] for record in records]
        for axes, (name, (heading, scale)) in zip(panels, shown.items(), strict=True):
            axes.plot(epochs, [scale * record[name] for record in records], color=colour, lw=1.8, marker=".", ms=5)
            axes.set_title(heading)
            axes.set_xlabel("epoch")
            _integer_axis(axes, max(epochs))
        return svg(figure)


def _strip(axes: "Axes", frame: "pandas.DataFrame", field: str, values: list[Any], colour: str, floor: float) -> None:
    for place, value in enumerate(values):
        trials = frame[frame[field] == value].sort_values("trial").to_dict("records")
        for number, trial in enumerate(trials):
            # Spread side by side in a fixed order, so that equal accuracies can be counted.
            x = place + (0 if len(trials) == 1 else 0.44 * (number / (len(trials) - 1) - 0.5))
            below, diverged = trial["accuracy"] < floor, trial["status"] == "diverged"
            face = colour if trial["status"] == "complete" else "white"
            marker = "x" if diverged else "v" if below else "o"
            y = 100 * max(trial["accuracy"], floor)
            style: dict[str, Any] = {"color": BAD} if diverged else {"mfc": face, "mec": colour}
            axes.plot(x, y, marker, ms=4, mew=0.9, alpha=0.85, **style)
        finished = [trial["accuracy"] for trial in trials if trial["status"] != "diverged"]
        if finished and max(finished) >= floor:
            axes.hlines(100 * max(finished), place - 0.34, place + 0.34, color=INK, lw=1.1)
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.grid(False, axis="x")


def _panels(count: int, height: float, share: bool = True) -> tuple[Any, list["Axes"]]:
    from matplotlib import pyplot

    columns, rows = min(count, COLUMNS), math.ceil(count / COLUMNS)
    figure, grid = pyplot.subplots(
        rows, columns, sharex=share, sharey=share, squeeze=False, layout="constrained",
        figsize=(_width(columns), height * rows),
    )  # fmt: skip
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:count])


def _width(columns: int) -> float:
    return min(WIDTH, 3.6 * columns + 0.4)


def _integer_axis(axes: "Axes", last: int, first: int = 1) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    margin = 0.04 * max(last - first, 1)
    axes.set_xlim(first - (margin if first else 0), last + 3 * margin)
