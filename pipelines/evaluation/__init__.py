"""Evaluators: frozen dataclasses whose `run(method, data)` returns metrics. Loop and commands call them."""

from .base import EvaluationData, Metric, Outputs, OutputsNotFinite, collect
from .classification import Classification
from .neighbours import NearestNeighbours

__all__ = [
    "Classification",
    "EvaluationData",
    "Evaluator",
    "Metric",
    "NearestNeighbours",
    "Outputs",
    "OutputsNotFinite",
    "collect",
]

Evaluator = Classification | NearestNeighbours
