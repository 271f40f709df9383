"""Accuracy and calibration of predicted class probabilities."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pipelines.config.constraints import Range

from .base import EvaluationData, Metric, Outputs, collect

if TYPE_CHECKING:
    from hyperspherical.methods import Method


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Accuracy, calibration errors and log-likelihood of `predict`."""

    calibration_bins: Annotated[int, Range(1)] = 15

    def predictions(self, method: "Method", data: EvaluationData) -> Outputs:
        """Class probabilities of every image; the draws of stochastic predictors are seeded, so repeatable."""
        import torch

        from hyperspherical.gather import rank

        generator = torch.Generator(data.device).manual_seed(data.seed + rank())
        return collect(data.queries, data.device, lambda images: method.predict(images, generator))

    def run(self, method: "Method", data: EvaluationData) -> list[Metric]:
        from hyperspherical.metrics import accuracy, calibration_error

        probabilities_BC, labels_B = self.predictions(method, data)
        bins = self.calibration_bins
        log_likelihood = probabilities_BC.gather(1, labels_B[:, None]).clamp_min(1e-30).log().mean()
        rms = calibration_error(probabilities_BC, labels_B, bins=bins, binning="equal_mass", norm="l2")
        usual = calibration_error(probabilities_BC, labels_B, bins=bins, binning="equal_width", norm="l1")
        figures = [
            ("accuracy", accuracy(probabilities_BC, labels_B), "argmax of mean predicted probabilities"),
            ("calibration_error_rms", rms, f"root mean square, {bins} equal-mass bins (the vMF paper's code)"),
            ("calibration_error", usual, f"mean absolute, {bins} equal-width bins (the usual ECE)"),
            ("negative_log_likelihood", -log_likelihood, "natural logarithm"),
        ]
        return [
            Metric(name=name, value=float(value), protocol=protocol, data=data.name, n=len(labels_B), seed=data.seed)
            for name, value, protocol in figures
        ]
