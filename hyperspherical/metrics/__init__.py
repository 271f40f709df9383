"""Figures of merit: pure functions on tensors."""

from hyperspherical.metrics.accuracy import accuracy
from hyperspherical.metrics.calibration import ReliabilityCurve, calibration_error, reliability_curve
from hyperspherical.metrics.knn import knn_probabilities
from hyperspherical.metrics.retrieval import RetrievalScores, retrieval_scores

__all__ = [
    "ReliabilityCurve",
    "RetrievalScores",
    "accuracy",
    "calibration_error",
    "knn_probabilities",
    "reliability_curve",
    "retrieval_scores",
]
