"""How figures look and how they enter the page: colours, axes, and data URIs."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 11.0
"""Inches of a figure as wide as the page."""
INK, SOFT, FAINT = "#1d2126", "#5c6570", "#d9dde2"
BAD = "#b3261e"
# Okabe and Ito's colours, which people with colour-blindness can tell apart.
OBJECTIVE_COLOURS = {
    "STANDARD": "#56606b",
    "HYPERBOLIC": "#cc79a7",
    "COSINE": "#0072b2",
    "ARCFACE": "#e69f00",
    "VMF": "#009e73",
}
OTHER_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#56606b", "#8c6d1f"]
# Paul Tol's muted scheme and a black, for the ten classes of a data set.
CLASS_COLOURS = [
    *("#332288", "#88ccee", "#44aa99", "#117733", "#999933"),
    *("#ddcc77", "#cc6677", "#882255", "#aa4499", "#555555"),
]


def colours_of(labels: list[str]) -> dict[str, str]:
    """A colour for each label, the same in all figures; the paper's objectives have fixed ones."""
    others = iter([*OTHER_COLOURS, *OTHER_COLOURS * (len(labels) // len(OTHER_COLOURS) + 1)])
    return {label: OBJECTIVE_COLOURS.get(label) or next(others) for label in labels}


@contextmanager
def print_style() -> Iterator[None]:
    """Within it, Matplotlib draws thin axes without boxes in one small size of type, and without a display."""
    import matplotlib

    matplotlib.use("agg")
    settings: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.labelsize": 9,
        "axes.labelcolor": SOFT,
        "axes.edgecolor": SOFT,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#eceef0",
        "grid.linewidth": 0.6,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "svg.hashsalt": "hyperspherical",
        "figure.dpi": 100,
    }
    with matplotlib.rc_context(settings):
        yield


def svg(figure: "Figure") -> str:
    """The figure as a data URI with sharp lines; as an image of its own, so that names inside cannot clash."""
    return _data_uri(figure, "svg", "image/svg+xml")


def png(figure: "Figure") -> str:
    """The figure as a data URI of pixels, for clouds of thousands of points."""
    return _data_uri(figure, "png", "image/png")


def _data_uri(figure: "Figure", kind: str, media_type: str) -> str:
    from matplotlib import pyplot

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, bbox_inches="tight", pad_inches=0.08, dpi=170, metadata=metadata)
    pyplot.close(figure)
    return f"data:{media_type};base64,{base64.b64encode(buffer.getvalue()).decode()}"
