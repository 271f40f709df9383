"""A small search folder, written by hand, whose ranks and ties can be computed in the head."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.config import change, to_dict
from pipelines.recipes import STUDIES, recipe

VMF, ARCFACE = "vmf/fashion-mnist-vmf", "vmf/fashion-mnist-arcface"
GRID = {"optimizer.learning_rate": [0.05, 0.1], "optimizer.nesterov": [False, True]}
POINTS = [(0.05, False), (0.05, True), (0.1, False), (0.1, True)]
STOPPED, BEST, TIE, DIVERGED = (f"fashion-mnist-vmf-{number:03d}" for number in range(4))
COMPLETE, FAILED, INTERRUPTED, WAITING = (f"fashion-mnist-arcface-{number:03d}" for number in range(4))
CURVES: dict[str, tuple[list[float], str | None]] = {
    STOPPED: ([0.80, 0.84], None),
    BEST: ([0.70, 0.85, 0.88, 0.90], "complete"),
    TIE: ([0.82, 0.86, 0.89, 0.899], "complete"),
    DIVERGED: ([0.83], "diverged: the loss is nan in epoch 2, step 7; the losses before it: 3.1, 8"),
    COMPLETE: ([0.5, 0.6, 0.8, 0.7], "complete"),
    FAILED: ([], None),
    INTERRUPTED: ([0.4], None),
}
"""Validation accuracies and the summary's status of every trial that has begun."""


def write_sweep(sweep: Path) -> Path:
    """Four trials of VMF, the first of them the published row, and four of ARCFACE, whose row is not in the grid."""
    study = STUDIES["vmf/fashion-mnist"]
    published = {name: to_dict(recipe(name)) for name in (VMF, ARCFACE)}
    base = {name: to_dict(change(recipe(name), {"epochs": 4})) for name in (VMF, ARCFACE)}
    trials = [
        {"trial": trial, "recipe": name, "changes": dict(zip(GRID, point, strict=True))}
        for name, trials in ((VMF, (STOPPED, BEST, TIE, DIVERGED)), (ARCFACE, (COMPLETE, FAILED, INTERRUPTED, WAITING)))
        for trial, point in zip(trials, POINTS, strict=True)
    ]
    plan = {
        "study": "vmf/fashion-mnist", "title": study.title, "columns": study.columns, "grid": GRID,
        "recipes": [VMF, ARCFACE], "published": published, "base": base, "epochs": 4, "rungs": [1, 2, 4],
        "reduction_factor": 2, "validation_images": 10_000, "notes": ["m = 0 for <one> epoch & no more"],
        "trials": trials,
    }  # fmt: skip
    for trial in trials:
        if trial["trial"] != WAITING:
            write_trial(sweep / "trials" / trial["trial"], base[trial["recipe"]], *CURVES[trial["trial"]])
    write(sweep / "plan.json", plan)
    write(
        sweep / "timing.json",
        {"wall_seconds": 20.0, "slot_seconds": 40.0, "slots": 2, "train_seconds": 24.0, "measure_seconds": 6.0},
    )
    (sweep / "trials" / FAILED / "error.txt").write_text("Traceback\nRuntimeError: <script>out of memory</script>\n")
    decisions = [
        {"trial": STOPPED, "recipe": VMF, "epoch": 1, "accuracy": 0.80, "cutoff": None, "stopped": False},
        {"trial": STOPPED, "recipe": VMF, "epoch": 2, "accuracy": 0.84, "cutoff": 0.855, "stopped": True},
        {"trial": TIE, "recipe": VMF, "epoch": 4, "accuracy": 0.899, "cutoff": 0.9, "stopped": True},
    ]
    (sweep / "decisions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in decisions) + '{"trial": "cut')
    return sweep


def write_trial(folder: Path, config: dict[str, Any], curve: list[float], status: str | None) -> None:
    write(folder / "config.json", config)
    records = [
        {
            "epoch": epoch, "loss": 1 / epoch, "learning_rate": 0.1, "train_seconds": 2.0, "images_per_second": 1000.0,
            "accuracy": accuracy, "calibration_error": 0.02, "measure_seconds": 0.5,
        }
        for epoch, accuracy in enumerate(curve, start=1)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    if status:
        write(folder / "summary.json", {
            "recipe": config["recipe"], "status": status, "epochs": len(curve), "best_epoch": len(curve),
            "accuracy": max(curve), "split": "fashion_mnist validation", "train_seconds": 2.0 * len(curve),
            "seed": 1234, "versions": {"torch": "2.11.0"},
            "hardware": {"device": "x86_64", "workers": 1, "cpus": 2, "threads": 1, "precision": "no"},
        })  # fmt: skip


def write_test_results(run: Path) -> None:
    """What `evaluate` leaves: 200 images with an accuracy of 80 %, embedded in three dimensions."""
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 10
    predicted = np.where(np.arange(200) < 160, labels, (labels + 1) % 10)
    probabilities = np.full((200, 10), 0.02)
    probabilities[np.arange(200), predicted] = 0.82
    directions = generator.normal(size=(10, 3))
    arrays = {"probabilities": probabilities, "labels": labels, "class_directions": directions}
    np.savez(run / "test_outputs.npz", embeddings=directions[labels] + generator.normal(size=(200, 3)), **arrays)
    metric = {"value": 0.8, "protocol": "argmax", "data": "fashion_mnist test", "n": 200, "seed": 1234}
    write(run / "evaluations.json", [{"name": "accuracy", **metric}])


def write(file: Path, values: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))
