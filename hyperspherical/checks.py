"""Argument checks shared by the whole package.

Shapes and types are always checked: that costs nothing. Values (range, unit length, finiteness) need the numbers
on the host, so they are checked only where that is free: on CPU tensors, and never while a graph is being compiled.
"""

import torch
from torch import Tensor

UNIT_TOLERANCE = 1e-3  # loose enough for vectors normalised in bfloat16-trained networks and cast up


def values_are_checked(tensor: Tensor, validate_args: bool | None = None) -> bool:
    """Whether values of `tensor` are looked at: as asked for, and by default on the CPU outside compilation."""
    if torch.compiler.is_compiling():
        return False
    if validate_args is None:
        return tensor.device.type == "cpu"
    return validate_args


def check_at_least(name: str, value: int, smallest: int) -> None:
    """Raise ValueError unless the integer `value` is at least `smallest`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < smallest:
        raise ValueError(f"{name} must be at least {smallest}, got {value}")


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError unless low < value < high."""
    if not low < value < high:
        raise ValueError(f"{name} must lie strictly between {low} and {high}, got {value}")


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def check_floating(name: str, tensor: Tensor) -> None:
    """Raise ValueError unless `tensor` is a tensor of floating-point numbers."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must be a floating-point tensor, got {tensor.dtype}")


def check_shape(name: str, tensor: Tensor, shape: tuple[int | str, ...]) -> None:
    """Raise ValueError unless `tensor` has `shape`; a string in `shape` names an axis of any length of at least 1."""
    wanted = tuple(tensor.shape)
    matches = len(wanted) == len(shape) and all(
        size >= 1 if isinstance(want, str) else size == want for size, want in zip(wanted, shape, strict=True)
    )
    if not matches:
        allowed = ", ".join(str(want) for want in shape)
        raise ValueError(f"{name} must have shape ({allowed}{',' if len(shape) == 1 else ''}), got {wanted}")


def check_features(name: str, tensor: Tensor, shape: tuple[int | str, ...]) -> None:
    """Raise ValueError unless `tensor` is floating point and has `shape`."""
    check_floating(name, tensor)
    check_shape(name, tensor, shape)


def check_labels(name: str, labels: Tensor, batch: int, num_classes: int | None = None) -> None:
    """Raise ValueError unless `labels` is an integer tensor (batch,) with entries in [0, num_classes)."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{name} must be an integer tensor, got {labels.dtype}")
    check_shape(name, labels, (batch,))
    if num_classes is not None and values_are_checked(labels):
        low, high = (int(bound) for bound in labels.aminmax())
        if low < 0 or high >= num_classes:
            raise ValueError(f"{name} must lie in 0 ... {num_classes - 1}, got values from {low} to {high}")


def check_unit(name: str, tensor: Tensor, validate_args: bool | None = None) -> None:
    """Raise ValueError unless every vector along the last axis has unit length (values: see the module's text)."""
    if values_are_checked(tensor, validate_args):
        deviation = (torch.linalg.vector_norm(tensor.detach().double(), dim=-1) - 1).abs()
        if tensor.numel() and not bool((deviation <= UNIT_TOLERANCE).all()):
            worst = float(deviation.max())
            raise ValueError(f"{name} must hold unit vectors, got a length that differs from 1 by {worst:.3g}")


def check_concentration(name: str, kappa: Tensor, validate_args: bool | None = None) -> None:
    """Raise ValueError unless every entry of `kappa` is finite and not negative (values: see the module's text)."""
    check_floating(name, kappa)
    if values_are_checked(kappa, validate_args):
        allowed = torch.isfinite(kappa) & (kappa >= 0)
        if not bool(allowed.all()):
            culprit = float(kappa.detach()[~allowed].reshape(-1)[0])
            raise ValueError(f"{name} must be finite and not negative, got {culprit}")


def check_finite(name: str, embeddings: Tensor) -> None:
    """Raise ValueError unless all rows of `embeddings` (N, D) are finite (checked on the CPU only)."""
    if values_are_checked(embeddings):
        broken = int((~embeddings.isfinite()).any(dim=1).sum())
        if broken:
            raise ValueError(f"{name} must be finite, got {broken} of {embeddings.shape[0]} rows that are not")
