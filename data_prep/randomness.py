"""Random numbers that depend on what they are for, not on who draws them or when.

Every number is a hash of (seed, epoch, the image's position in the epoch, view, which parameter). One worker or eight,
started afresh or resumed in the middle: the same image gets the same augmentation.
"""

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ALL_BITS = (1 << 64) - 1


def uniforms(seed: int, epoch: int, positions_B: NDArray[np.int64], view: int, count: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1): (B, count), by SplitMix64 in counter mode."""
    key = np.array([0], np.uint64)
    for part in (seed, epoch, view):
        key = _mixed(key + _GOLDEN + np.array([part & _ALL_BITS], np.uint64))
    keys_B = _mixed(key + _GOLDEN * (positions_B.astype(np.uint64) + np.uint64(1)))
    counters_K = _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
    bits_BK = _mixed(keys_B[:, None] + counters_K[None, :])
    return (bits_BK >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    """numpy's generator for one purpose in one epoch; neighbouring seeds and epochs share nothing."""
    return np.random.default_rng((seed & _ALL_BITS, epoch, purpose))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014); arrays wrap around without a warning."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
