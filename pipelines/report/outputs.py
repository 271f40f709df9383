"""What the best trials predict on test images: figures of embeddings on the sphere and of calibration. Data URIs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import CLASS_COLOURS, FAINT, INK, SOFT, WIDTH, png, print_style, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[Any]
BINS = 15
POINTS = 2000
# Azimuth and elevation of the eye in radians; the second view is from the opposite point.
VIEWS = [(0.52, 0.35), (0.52 + np.pi, -0.35)]


@dataclass(frozen=True)
class Outputs:
    """One row per test image."""

    probabilities_BC: Array
    labels_B: Array
    embeddings_BD: Array
    class_directions_CD: Array | None

    @property
    def on_the_sphere(self) -> bool:
        return self.embeddings_BD.shape[1] == 3


def read_outputs(run: Path) -> Outputs | None:
    """The outputs that evaluating a run on the test split has left in its folder, or None."""
    file = run / "test_outputs.npz"
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        directions = arrays.get("class_directions")
        return Outputs(arrays["probabilities"], arrays["labels"], arrays["embeddings"], directions)


def class_names(data: dict[str, Any]) -> tuple[str, ...]:
    """Names of the classes for the `data` of a configuration; none for a data set that is not in the catalogue."""
    from data_prep.catalogue import entry

    try:
        return entry(data["name"]).classes_of(data["labels"])
    except ValueError:
        return ()


def sphere_caption(outputs: dict[str, Outputs]) -> str:
    shown = min(POINTS, *(len(each.labels_B) for each in outputs.values()))
    return (
        f"Directions of the embeddings (n = 3) of {shown:,} test images per objective, coloured by their true class, "
        "seen from two opposite sides of the sphere. Diamonds are the directions of the class "
        "vectors. Tight, separate groups around their diamonds are what the objectives aim for."
    )


def reliability_caption(outputs: dict[str, Outputs]) -> str:
    images = " and ".join(sorted({f"{len(each.labels_B):,}" for each in outputs.values()}))
    return (
        f"Accuracy against confidence of the predicted class on {images} test images, in {BINS} bins of equally many "
        "images, with one standard error. Below the dashed line a model is surer than it is right. ECE is the mean "
        "absolute distance to the line over these bins, RMS the root mean square, which the vMF paper's code reports."
    )


def calibration(outputs: Outputs) -> tuple[Array, Array, Array]:
    """Mean confidence, accuracy and count of images in each of 15 bins with equal numbers of images."""
    confidence_B = outputs.probabilities_BC.max(axis=1).astype(np.float64)
    right_B = outputs.probabilities_BC.argmax(axis=1) == outputs.labels_B
    order = confidence_B.argsort(kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    means = [(confidence_B[part].mean(), right_B[part].mean(), len(part)) for part in bins]
    confidence_K, accuracy_K, count_K = np.array(means).T
    return confidence_K, accuracy_K, count_K


def calibration_errors(outputs: Outputs) -> tuple[float, float]:
    """The mean absolute and the root mean square of accuracy minus confidence over those bins."""
    confidence_K, accuracy_K, count_K = calibration(outputs)
    gap_K, weight_K = np.abs(accuracy_K - confidence_K), count_K / count_K.sum()
    return float((weight_K * gap_K).sum()), float(np.sqrt((weight_K * gap_K**2).sum()))


def reliability(outputs: dict[str, Outputs], colours: dict[str, str]) -> str:
    """Accuracy against confidence of each objective, with one standard error per bin."""

    def draw(axes: "Axes", label: str) -> None:
        confidence_K, accuracy_K, count_K = calibration(outputs[label])
        error_K = np.sqrt(accuracy_K * (1 - accuracy_K) / count_K)
        axes.plot([0, 100], [0, 100], color=SOFT, lw=0.8, ls=(0, (4, 3)))
        axes.errorbar(
            100 * confidence_K, 100 * accuracy_K, 100 * error_K,
            color=colours[label], marker="o", ms=3.5, lw=1.3, elinewidth=0.9,
        )  # fmt: skip
        mean, root = calibration_errors(outputs[label])
        text = f"ECE {100 * mean:.2f} %\nRMS {100 * root:.2f} %"
        # In the corner that the curve leaves free: models surer than they are right run below the diagonal.
        is_sure = float((count_K * (confidence_K - accuracy_K)).sum()) > 0
        x, y, right, top = (0.05, 0.95, "left", "top") if is_sure else (0.97, 0.05, "right", "bottom")
        axes.text(x, y, text, transform=axes.transAxes, ha=right, va=top, color=INK, fontsize=8.5)
        axes.set_xlabel("confidence, %")
        axes.set_aspect("equal")
        low = min(float(calibration(each)[k].min()) for each in outputs.values() for k in (0, 1))
        axes.set_xlim(max(0.0, 100 * low - 5), 101.5)
        axes.set_ylim(max(0.0, 100 * low - 5), 101.5)

    return _row_of_panels(list(outputs), colours, 2.6, draw, svg, "accuracy, %")


def spheres(outputs: dict[str, Outputs], colours: dict[str, str], class_names: tuple[str, ...]) -> str:
    """Directions of test embeddings on the sphere, from two opposite sides, and where the classes lie."""
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    # One objective has its two views side by side, several have them one above the other.
    single = len(outputs) == 1
    rows, columns = (1, 2) if single else (2, len(outputs))
    side = 4.5 if single else min(WIDTH / columns, 3.4)
    with print_style():
        figure, grid = pyplot.subplots(
            rows, columns, squeeze=False, layout="constrained", figsize=(side * columns, side * rows + 0.7)
        )
        for column, (label, each) in enumerate(outputs.items()):
            for axes, angles in zip(grid[0] if single else grid[:, column], VIEWS, strict=True):
                _sphere(axes, each, _rotation(*angles))
            grid[0][column].set_title(label, color=colours[label], loc="center")
        keys = [
            Line2D([], [], ls="", marker="o", ms=5, color=_class_colour(number), label=name)
            for number, name in enumerate(class_names)
        ]
        if len(keys) <= 20:
            figure.legend(handles=keys, loc="outside lower center", ncols=5 if single else 10, handletextpad=0.1)
        return png(figure)


def _sphere(axes: "Axes", outputs: Outputs, rotation: Array) -> None:
    axes.axis("off")
    _wireframe(axes, rotation)
    # Evenly spaced images: test sets may be sorted by class.
    chosen = np.unique(np.linspace(0, len(outputs.labels_B) - 1, POINTS).astype(int))
    points = _unit(outputs.embeddings_BD[chosen]) @ rotation.T
    labels = outputs.labels_B[chosen]
    front = points[:, 2] > 0
    shown = [_class_colour(label) for label in labels[front]]
    axes.scatter(points[front, 0], points[front, 1], s=3.2, c=shown, alpha=0.75, linewidths=0)
    if outputs.class_directions_CD is not None:
        for number, place in enumerate(_unit(outputs.class_directions_CD) @ rotation.T):
            if place[2] > 0:
                style: dict[str, Any] = {"mfc": _class_colour(number), "mec": "white", "mew": 1.1}
                axes.plot(place[0], place[1], "D", ms=7, **style)
    axes.set_xlim(-1.04, 1.04)
    axes.set_ylim(-1.04, 1.04)
    axes.set_aspect("equal")


def _wireframe(axes: "Axes", rotation: Array) -> None:
    turn = np.linspace(0, 2 * np.pi, 181)
    axes.fill(np.cos(turn), np.sin(turn), color="#f7f8f8", ec=SOFT, lw=0.8, zorder=0)
    circle, flat = np.stack([np.cos(turn), np.sin(turn)]), np.zeros_like(turn)
    meridians = [np.stack([np.cos(a) * circle[0], np.sin(a) * circle[0], circle[1]]) for a in np.arange(6) * np.pi / 6]
    heights = np.sin(np.deg2rad([-60, -30, 0, 30, 60]))
    parallels = [np.stack([*(np.sqrt(1 - z**2) * circle), flat + z]) for z in heights]
    for line in [*meridians, *parallels]:
        x, y, depth = rotation @ line
        axes.plot(np.where(depth > 0, x, np.nan), y, color=FAINT, lw=0.6, zorder=1)


def _rotation(azimuth: float, elevation: float) -> Array:
    """The matrix whose rows are right, up, and towards the eye that looks from these angles."""
    eye = [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
    right = [-np.sin(azimuth), np.cos(azimuth), 0.0]
    return np.stack([right, np.cross(eye, right), eye])


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _class_colour(number: int) -> str:
    return CLASS_COLOURS[int(number) % len(CLASS_COLOURS)]


def _row_of_panels(
    labels: list[str], colours: dict[str, str], height: float,
    draw: Callable[["Axes", str], None], encode: Callable[[Any], str], heading: str,
) -> str:  # fmt: skip
    from matplotlib import pyplot

    with print_style():
        size = (min(WIDTH, 3.4 * len(labels)), height if len(labels) > 3 else height + 0.6)
        figure, grid = pyplot.subplots(1, len(labels), sharey=True, squeeze=False, layout="constrained", figsize=size)
        for axes, label in zip(grid[0], labels, strict=True):
            draw(axes, label)
            axes.set_title(label, color=colours[label])
        grid[0][0].set_ylabel(heading)
        return encode(figure)
