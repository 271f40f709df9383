"""Bessel ratios and the vMF normaliser in 60-digit arithmetic, which the benchmark of accuracy shares."""

from benchmarks.high_precision import direct, log_iv_and_ratio, vmf

__all__ = ["direct", "log_iv_and_ratio", "vmf"]
