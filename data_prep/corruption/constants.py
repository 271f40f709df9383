"""The published strengths of the corruptions: numbers per corruption and severity 1..5, in two tables.

"imagenet" is what ImageNet-C was made with (224 px), "cifar" what CIFAR-10-C and CIFAR-100-C were (32 px). Both from
Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations" (ICLR 2019).
What the numbers of a corruption mean is said at its function in `corruptions`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Strength = tuple[float, ...]
Table = Literal["cifar", "imagenet"]
TABLES: tuple[str, ...] = get_args(Table)

CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),
)
"""All 19 in the release's order; the last four are the extra ones, kept out of its mean corruption error."""

SEVERITIES = (1, 2, 3, 4, 5)


def _numbers(*strengths: float) -> tuple[Strength, ...]:
    return tuple((strength,) for strength in strengths)


def _times(side: float, *shares: Strength) -> tuple[Strength, ...]:
    return tuple(tuple(side * share for share in strength) for strength in shares)


_CIFAR: dict[str, tuple[Strength, ...]] = {
    "gaussian_noise": _numbers(0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _numbers(500, 250, 100, 75, 50),
    "impulse_noise": _numbers(0.01, 0.02, 0.03, 0.05, 0.07),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": _numbers(0.05, 0.1, 0.15, 0.2, 0.3),
    "contrast": _numbers(0.75, 0.5, 0.4, 0.3, 0.15),
    "elastic_transform": _times(
        32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
    ),
    "pixelate": _numbers(0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": _numbers(80, 65, 58, 50, 40),
    "speckle_noise": _numbers(0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": _numbers(0.4, 0.6, 0.7, 0.8, 1),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

_IMAGENET: dict[str, tuple[Strength, ...]] = {
    "gaussian_noise": _numbers(0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": _numbers(60, 25, 12, 5, 3),
    "impulse_noise": _numbers(0.03, 0.06, 0.09, 0.17, 0.27),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": _numbers(0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": _numbers(0.4, 0.3, 0.2, 0.1, 0.05),
    # 244 where 224 was meant: the release was made with it.
    "elastic_transform": _times(
        244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)
    ),
    "pixelate": _numbers(0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg_compression": _numbers(25, 18, 15, 10, 7),
    "speckle_noise": _numbers(0.15, 0.2, 0.35, 0.45, 0.6),
    "gaussian_blur": _numbers(1, 2, 3, 4, 6),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}

STRENGTHS: Mapping[str, Mapping[str, tuple[Strength, ...]]] = MappingProxyType(
    {"cifar": MappingProxyType(_CIFAR), "imagenet": MappingProxyType(_IMAGENET)}
)
"""Table -> corruption -> the numbers of severities 1..5."""
