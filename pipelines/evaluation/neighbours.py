"""Accuracy of a weighted vote of nearest neighbours (DSF paper, kNN protocol)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pipelines.config.constraints import Range

from .base import EvaluationData, Metric, collect

if TYPE_CHECKING:
    from hyperspherical.methods import Method


@dataclass(frozen=True, kw_only=True)
class NearestNeighbours:
    """Accuracy of a vote of the nearest training images, weighted by exp(cosine / temperature)."""

    neighbours: Annotated[int, Range(1)] = 200
    temperature: Annotated[float, Range(0, open_low=True)] = 0.1

    def run(self, method: "Method", data: EvaluationData) -> list[Metric]:
        from torch.nn.functional import normalize

        from hyperspherical.metrics import accuracy, knn_probabilities

        def embed(images):  # type: ignore[no-untyped-def]
            return normalize(method.encode(images).embedding_BD.float(), dim=1)

        bank, queries = collect(data.bank(), data.device, embed), collect(data.queries, data.device, embed)
        neighbours = min(self.neighbours, len(bank.labels_B))
        probabilities_BC = knn_probabilities(
            bank.values_BD,
            bank.labels_B,
            queries.values_BD,
            k=neighbours,
            temperature=self.temperature,
            num_classes=data.num_classes,
        )
        value = float(accuracy(probabilities_BC, queries.labels_B))
        bank_size, images = len(bank.labels_B), len(queries.labels_B)
        protocol = f"{neighbours} nearest of {bank_size} training images, cosine, temperature {self.temperature:g}"
        return [Metric(name="accuracy", value=value, protocol=protocol, data=data.name, n=images, seed=data.seed)]
