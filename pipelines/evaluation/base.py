"""What evaluators share: the metric they return, the data they see, and the pass over a split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from data_prep.loading import Loader


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One measured number with all that is needed to read it."""

    name: str
    value: float
    """Shares and errors are in [0, 1]."""
    protocol: str
    """How it was measured, in words."""
    data: str
    """Data set and split."""
    n: int
    """Images measured."""
    seed: int
    """Of the draws that prediction makes."""


@dataclass(frozen=True)
class EvaluationData:
    """A split to measure, and the labelled images that neighbours are taken from."""

    name: str
    """Data set and split, as in "fashion_mnist validation"."""
    queries: "Loader"
    bank: "Callable[[], Loader]"
    num_classes: int
    device: "torch.device"
    seed: int


class Outputs(NamedTuple):
    """One row per image of a split, in the split's order."""

    values_BD: "Tensor"
    labels_B: "Tensor"


class OutputsNotFinite(ArithmeticError):
    """A model gave outputs that are not finite: nothing can be measured of it."""


def collect(loader: "Loader", device: "torch.device", function: "Callable[[Tensor], Tensor]") -> Outputs:
    """Applies `function` to every image (B, C, H, W) of a sequential loader and puts the rows in the split's order.

    With several workers each sees its shard, and every worker gets all rows. Raises `OutputsNotFinite`.
    """
    import torch

    from hyperspherical.gather import gather_objects

    ids, values, labels = [], [], []
    with torch.inference_mode():
        for batch in loader.epoch(0):
            values.append(function(batch.images_BVCHW[:, 0].to(device)).float().cpu())
            ids.append(batch.ids_B.cpu())
            labels.append(batch.labels_B.cpu())
    shards = gather_objects((torch.cat(ids), torch.cat(values), torch.cat(labels)))
    ids_B, values_BD, labels_B = (torch.cat(parts) for parts in zip(*shards, strict=True))
    if not bool(values_BD.isfinite().all()):
        raise OutputsNotFinite(f"outputs for {int((~values_BD.isfinite()).any(1).sum())} images are not finite")
    order = ids_B.argsort()
    return Outputs(values_BD[order], labels_B[order])
