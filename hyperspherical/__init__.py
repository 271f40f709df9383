"""Hyperspherical embeddings: exact von Mises-Fisher mathematics, objectives and metrics on torch alone."""

from hyperspherical import bessel, gather, losses, metrics, poincare, similarity, sphere
from hyperspherical.vmf import HypersphericalUniform, VonMisesFisher

__all__ = [
    "HypersphericalUniform",
    "VonMisesFisher",
    "bessel",
    "gather",
    "losses",
    "metrics",
    "poincare",
    "similarity",
    "sphere",
]
