"""What the page says about one run, section by section."""

import shlex
from pathlib import Path
from typing import Any

from pipelines.analysis import Table, read_json, read_lines
from pipelines.analysis.tables import cell, percent
from pipelines.analysis.trials import standard_error

from .figures import run_curves
from .outputs import class_names, read_outputs, reliability, reliability_caption, sphere_caption, spheres
from .page import Article, command, figure, missing, paragraph, section, table
from .style import colours_of


def run_report(path: Path) -> Article:
    """The article about a run. Raises `ConfigurationError` for damaged files."""
    config, records = read_json(path / "config.json", {}), read_lines(path / "metrics.jsonl")
    parts = [opening(path), curves(path, config, records), evaluations(path), predictions(path, config)]
    settings = [[name, cell(value)] for name, value in leaves(config).items()]
    parts += [
        section("Hyperparameters", table(Table(["field", "value"], settings), prose=True)),
        section("How to reproduce this", command(f"hyperspherical train --config {_quoted(path / 'config.json')}")),
    ]
    return Article(title=f"{config.get('recipe', path.name)}: one run", html="\n".join(parts))


def opening(path: Path) -> str:
    """How the run ended, and on what it ran."""
    summary = read_json(path / "summary.json", {})
    if not summary:
        again = f"hyperspherical train --config {_quoted(path / 'config.json')} --run {_quoted(path)}"
        return missing("The run is not over, so it has no final figures; continuing it makes them.", again)
    accuracy = summary["accuracy"]
    reached = (
        f" {percent(accuracy)} % accuracy on {summary['split']} at epoch {summary['best_epoch']}"
        if accuracy is not None
        else ""
    )
    headline = f"{summary['status'].capitalize()} after {summary['epochs']} epochs" + (
        f":{reached}." if reached else "."
    )
    hardware = summary["hardware"]
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    about = (
        f"{path.name}, seed {summary['seed']}, {summary['train_seconds']:.1f} s of training on {hardware['device']} "
        f"({hardware['cpus']} CPUs, workers: {hardware['workers']}, precision {hardware['precision']}). {versions}."
    )
    return paragraph(about, "about") + "\n" + paragraph(headline, "headline")


def curves(path: Path, config: dict[str, Any], records: list[dict[str, Any]]) -> str:
    title = "Curves"
    if not records:
        again = f"hyperspherical train --config {_quoted(path / 'config.json')} --run {_quoted(path)}"
        return section(title, missing("No epoch has been recorded yet.", again))
    speed = sum(record["images_per_second"] for record in records) / len(records)
    caption = f"{len(records)} epochs; {speed:,.0f} images per second in training on average."
    source = run_curves(records, colours_of([_label(config)])[_label(config)])
    return section(title, figure(source, "Training loss and validation figures per epoch", caption))


def evaluations(path: Path) -> str:
    metrics = read_json(path / "evaluations.json", [])
    if not metrics:
        return section("Evaluations", missing("The run has not been evaluated.", _evaluate_command(path)))
    rows = []
    for metric in metrics:
        error = standard_error(metric["value"], metric["n"]) if metric["name"] == "accuracy" else None
        value = f"{metric['value']:.4f}" + (f" ± {error:.4f}" if error is not None else "")
        rows.append([metric["name"], value, metric["data"], str(metric["n"]), str(metric["seed"]), metric["protocol"]])
    content = Table(["metric", "value", "data", "images", "seed", "protocol"], rows)
    return section(
        "Evaluations",
        table(content, prose=True),
        paragraph("± is one binomial standard error over the images.", "about"),
    )


def predictions(path: Path, config: dict[str, Any]) -> str:
    """Reliability, and the sphere where embeddings have three dimensions."""
    outputs = read_outputs(path)
    if outputs is None:
        return section("Reliability", missing("There are no predictions of test images.", _evaluate_command(path)))
    named = {_label(config): outputs}
    colours = colours_of(list(named))
    parts = [
        section("Reliability", figure(
            reliability(named, colours), "Accuracy against confidence on test images", reliability_caption(named)
        ))
    ]  # fmt: skip
    if outputs.on_the_sphere:
        source = spheres(named, colours, class_names(config["data"]))
        alt = "Test embeddings on the unit sphere, coloured by class, seen from two opposite sides"
        parts.append(section("Embeddings on the sphere", figure(source, alt, sphere_caption(named))))
    return "\n".join(parts)


def leaves(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Dotted names and values of all leaf fields of a configuration's JSON form."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= leaves(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return found


def _label(config: dict[str, Any]) -> str:
    return str(config.get("recipe", "run")).rsplit("-", 1)[-1].upper()


def _evaluate_command(path: Path) -> str:
    return f"hyperspherical evaluate {_quoted(path)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
