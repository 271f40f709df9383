"""Measuring a finished run: its selected weights, a split, and a list of evaluators."""

import dataclasses
import json
from pathlib import Path

import numpy as np
from torch.nn.functional import normalize

from hyperspherical.methods import Method

from .config import ConfigurationError, MoCo, change
from .evaluation import Classification, EvaluationData, Evaluator, Metric, NearestNeighbours, collect
from .files import replace_file, write_json
from .runs import RunFolder

PROTOCOLS: dict[str, Evaluator] = {
    "classification": Classification(),
    "neighbours": NearestNeighbours(),
}
"""What `evaluate --protocols` can name."""


def evaluate_run(
    path: Path, split: str, evaluators: list[Evaluator] | None = None, **changes: str | None
) -> list[Metric]:
    """Runs the evaluators on a split, adds their metrics to the run's evaluations.json and returns them.

    Without evaluators, the run's own monitor is run. `changes` are fields of the configuration that say where to run:
    `device` and `root`. Classification leaves its predictions in <split>_outputs.npz for the report. Raises
    `ConfigurationError` if the folder holds no trained weights or the method has no classifier to measure.
    """
    from safetensors.torch import load_file

    from .accelerator import start_accelerator
    from .data import open_data

    folder = RunFolder(path)
    if (path / "plan.json").exists():
        raise ConfigurationError([f"{path} is a search: evaluate one of its trials, {path}/trials/..."])
    if not folder.model_file.exists():
        raise ConfigurationError([f"{path} is not the folder of a trained run: it has no {folder.model_file.name}"])
    given = {name: value for name, value in changes.items() if value is not None}
    config = change(folder.config(), given | {"workers": 1})
    evaluators = evaluators or [config.monitor]
    classifies = any(isinstance(evaluator, Classification) for evaluator in evaluators)
    if classifies and isinstance(config.method, MoCo):
        raise ConfigurationError(["classification cannot be measured of MoCo, which has no classifier: try neighbours"])
    accelerator = start_accelerator(config)
    with open_data(config, accelerator) as data:
        method = config.method.build(config.backbone, data.num_classes, data.image_shape)
        method.load_state_dict(load_file(folder.model_file))
        method.to(accelerator.device).eval()
        # Validation images must not be their own neighbours, though the full training set holds them.
        seen = data.evaluation(split, bank_split="train" if split == "validation" else config.data.train_split)
        metrics = [metric for evaluator in evaluators for metric in evaluator.run(method, seen)]
        record(folder, metrics)
        if classifies:
            write_outputs(folder.path / f"{split}_outputs.npz", method, seen)
    return metrics


def write_outputs(file: Path, method: Method, data: EvaluationData) -> None:
    """Probabilities, labels and embeddings of a split, and the class directions, for figures."""
    predictions = Classification().predictions(method, data)
    embeddings = collect(data.queries, data.device, lambda images: method.encode(images).embedding_BD)
    arrays = {
        "probabilities": predictions.values_BD.numpy(),
        "labels": predictions.labels_B.numpy(),
        "embeddings": embeddings.values_BD.numpy(),
    }
    class_matrix = getattr(getattr(method, "objective", None), "class_matrix", None)
    if class_matrix is not None:
        arrays["class_directions"] = normalize(class_matrix.detach().float(), dim=1).cpu().numpy()

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    replace_file(file, write)


def record(folder: RunFolder, metrics: list[Metric]) -> None:
    """Adds metrics to evaluations.json; a metric measured again replaces its older value."""
    file = folder.path / "evaluations.json"
    known = [Metric(**values) for values in json.loads(file.read_text())] if file.exists() else []
    kept = {(metric.name, metric.protocol, metric.data): metric for metric in [*known, *metrics]}
    write_json(file, [dataclasses.asdict(metric) for metric in kept.values()])
