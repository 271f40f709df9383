"""The one check that all metrics on embeddings share: a value that is not a number would pass for a neighbour."""

from torch import Tensor

from hyperspherical.checks import values_are_checked


def check_finite(name: str, embeddings: Tensor) -> None:
    """Raise ValueError unless all rows of `embeddings` (N, D) are finite (checked on the CPU only)."""
    if values_are_checked(embeddings):
        broken = int((~embeddings.isfinite()).any(dim=1).sum())
        if broken:
            raise ValueError(f"{name} must be finite, got {broken} of {embeddings.shape[0]} rows that are not")
