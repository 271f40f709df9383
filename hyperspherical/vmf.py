"""The von Mises-Fisher distribution on the unit sphere of R^n as a `torch.distributions.Distribution`.

Density C_n(kappa) exp(kappa mu.x) with respect to the surface measure; kappa = 0 is the uniform distribution.
"""

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from hyperspherical.bessel import (
    log_vmf_normalizer,
    log_vmf_normalizer_difference,
    mean_resultant_length,
    mean_resultant_quotient,
    mean_resultant_slope,
)
from hyperspherical.checks import (
    UNIT_TOLERANCE,
    check_at_least,
    check_choice,
    check_concentration,
    check_floating,
    check_unit,
    values_are_checked,
)
from hyperspherical.samplers import SAMPLERS, householder_tangents, random_tangents, sample_radial
from hyperspherical.sphere import at_least_float32, normalize

__all__ = ["HypersphericalUniform", "VonMisesFisher", "unit_sphere"]

Shape = torch.Size | list[int] | tuple[int, ...]


class _UnitSphere(constraints.Constraint):
    """Vectors of unit length along the last axis."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        deviation: Tensor = (torch.linalg.vector_norm(value.double(), dim=-1) - 1).abs()
        return deviation <= UNIT_TOLERANCE


unit_sphere = _UnitSphere()


class VonMisesFisher(Distribution):
    """Von Mises-Fisher distribution with exact, reparameterised samples.

    Args:
        loc: (..., n) mean directions, unit vectors, n >= 2.
        concentration: (...) kappa, finite and at least 0; its shape broadcasts against loc's batch axes.
        validate_args: check values too (unit length, finiteness, support). Default: on the CPU and outside
            compilation, because elsewhere it would wait for the device.

    Half-precision parameters are cast up to float32.

    Raises:
        ValueError: wrong types or shapes, n < 2, loc not of unit length, kappa negative or not finite.
    """

    arg_constraints = {"loc": unit_sphere, "concentration": constraints.nonnegative}  # noqa: RUF012 (torch's own form)
    support = unit_sphere
    has_rsample = True

    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        check_floating("loc", loc)
        if loc.dim() == 0 or loc.shape[-1] < 2:
            raise ValueError(f"loc must have shape (..., n) with n >= 2, got {tuple(loc.shape)}")
        loc = at_least_float32(loc)
        if not isinstance(concentration, Tensor | float | int):
            raise ValueError(f"concentration must be a tensor or a number, got {type(concentration).__name__}")
        kappa = torch.as_tensor(concentration, device=loc.device)
        kappa = kappa.to(loc.dtype) if not isinstance(concentration, Tensor) else at_least_float32(kappa)
        check_concentration("concentration", kappa, validate_args)
        check_unit("loc", loc, validate_args)
        try:
            batch_shape = torch.broadcast_shapes(loc.shape[:-1], kappa.shape)
        except RuntimeError:
            raise ValueError(
                f"concentration must have a shape that broadcasts against loc's batch shape {tuple(loc.shape[:-1])}, "
                f"got {tuple(kappa.shape)}"
            ) from None
        self.loc = loc.expand(*batch_shape, loc.shape[-1])
        self.concentration = kappa.to(loc.dtype).expand(batch_shape)
        checked = values_are_checked(loc, validate_args)
        super().__init__(batch_shape, loc.shape[-1:], validate_args=False)  # parameters are already checked
        self._validate_args = checked

    @property
    def dim(self) -> int:
        """n, the dimension of the space that holds the sphere."""
        return self.event_shape[0]

    def expand(self, batch_shape: Shape, _instance: "VonMisesFisher | None" = None) -> "VonMisesFisher":
        """A view of the same distribution with batch axes expanded to `batch_shape`."""
        new: VonMisesFisher = self._get_checked_instance(VonMisesFisher, _instance)
        batch_shape = torch.Size(batch_shape)
        new.loc = self.loc.expand(*batch_shape, self.dim)
        new.concentration = self.concentration.expand(batch_shape)
        super(VonMisesFisher, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """(..., n) E[x] = A_n(kappa) mu."""
        return mean_resultant_length(self.concentration, self.dim)[..., None] * self.loc

    @property
    def mode(self) -> Tensor:
        """(..., n) the mean direction."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """(..., n) Var[x_i] = A'(kappa) mu_i^2 + (A(kappa) / kappa) (1 - mu_i^2)."""
        along = mean_resultant_slope(self.concentration, self.dim)[..., None]
        across = mean_resultant_quotient(self.concentration.square(), self.dim)[..., None]
        return along * self.loc.square() + across * (1 - self.loc.square())

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density with respect to the surface measure at unit vectors `value` (..., n).

        Written as (log C + kappa) - kappa |x - mu|^2 / 2 in float64, which keeps its digits when kappa is large and
        equals log C + kappa mu.x on the sphere; gradients agree along the sphere.

        Raises:
            ValueError: value is not on the sphere (where values are checked), or has the wrong last axis.
        """
        check_floating("value", value)
        if value.shape[-1:] != self.event_shape:
            raise ValueError(f"value must have shape (..., {self.dim}), got {tuple(value.shape)}")
        if self._validate_args:
            check_unit("value", value, True)
        kappa = self.concentration.double()
        apart = (value.double() - self.loc.double()).square().sum(dim=-1)
        result = (log_vmf_normalizer(kappa, self.dim) + kappa) - 0.5 * kappa * apart
        return result.to(torch.promote_types(self.loc.dtype, at_least_float32(value).dtype))

    def entropy(self) -> Tensor:
        """(...) differential entropy in nats, -log C - kappa A."""
        kappa = self.concentration.double()
        spread = kappa * (1 - mean_resultant_length(kappa, self.dim))
        return (spread - (log_vmf_normalizer(kappa, self.dim) + kappa)).to(self.loc.dtype)

    def rsample(
        self,
        sample_shape: Shape = (),
        generator: torch.Generator | None = None,
        sampler: str = "exact",
    ) -> Tensor:
        """Draw unit vectors (*sample_shape, ..., n), differentiable in loc and concentration without bias.

        Args:
            sample_shape: leading axes of independent draws.
            generator: source of randomness, on the device of loc.
            sampler: "exact", or "published" for the biased sampler of the vMF paper's code.

        Raises:
            ValueError: an unknown sampler.
        """
        check_choice("sampler", sampler, SAMPLERS)
        shape = self._extended_shape(torch.Size(sample_shape))
        num_draws = math.prod(sample_shape)
        kappa_B = self.concentration.reshape(-1)
        cos_SB, sin_SB = sample_radial(kappa_B, self.dim, num_draws, generator, sampler, self._validate_args)
        loc = self.loc.expand(shape)
        tangents = random_tangents(loc, generator) if sampler == "exact" else householder_tangents(loc, generator)
        return cos_SB.reshape(shape[:-1])[..., None] * loc + sin_SB.reshape(shape[:-1])[..., None] * tangents

    def sample(
        self,
        sample_shape: Shape = (),
        generator: torch.Generator | None = None,
        sampler: str = "exact",
    ) -> Tensor:
        """As `rsample`, without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator, sampler)


class HypersphericalUniform(Distribution):
    """Uniform distribution on the unit sphere of R^n.

    Args:
        dim: n, at least 2.
        batch_shape: shape of a batch of identical distributions.
        dtype, device: of the samples.

    Raises:
        ValueError: dim < 2, or a dtype that is not floating point.
    """

    arg_constraints = {}  # noqa: RUF012 (torch's own form)
    support = unit_sphere

    def __init__(
        self,
        dim: int,
        batch_shape: Shape = (),
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        check_at_least("dim", dim, 2)
        if not dtype.is_floating_point:
            raise ValueError(f"dtype must be floating point, got {dtype}")
        self.dim, self.dtype, self.device = dim, dtype, device
        super().__init__(torch.Size(batch_shape), torch.Size((dim,)), validate_args=False)

    def expand(self, batch_shape: Shape, _instance: "HypersphericalUniform | None" = None) -> "HypersphericalUniform":
        """The same distribution with batch axes expanded to `batch_shape`."""
        return HypersphericalUniform(self.dim, batch_shape, self.dtype, self.device)

    @property
    def mean(self) -> Tensor:
        """(..., n) zero."""
        return torch.zeros((*self.batch_shape, self.dim), dtype=self.dtype, device=self.device)

    @property
    def variance(self) -> Tensor:
        """(..., n) 1 / n."""
        return torch.full((*self.batch_shape, self.dim), 1 / self.dim, dtype=self.dtype, device=self.device)

    def entropy(self) -> Tensor:
        """(...) logarithm of the sphere's area, 2 pi^(n/2) / Gamma(n/2)."""
        area = math.log(2) + 0.5 * self.dim * math.log(math.pi) - math.lgamma(self.dim / 2)
        return torch.full(self.batch_shape, area, dtype=self.dtype, device=self.device)

    def log_prob(self, value: Tensor) -> Tensor:
        """(...) minus the entropy, at unit vectors (..., n).

        Raises:
            ValueError: value is not on the sphere (looked at on the CPU), or has the wrong last axis.
        """
        check_floating("value", value)
        if value.shape[-1:] != self.event_shape:
            raise ValueError(f"value must have shape (..., {self.dim}), got {tuple(value.shape)}")
        check_unit("value", value)
        return (-self.entropy()).expand(torch.broadcast_shapes(value.shape[:-1], self.batch_shape))

    def sample(self, sample_shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Draw unit vectors (*sample_shape, ..., n)."""
        shape = self._extended_shape(torch.Size(sample_shape))
        return normalize(torch.randn(shape, dtype=self.dtype, device=self.device, generator=generator))


def _kl_vmf_vmf(p: VonMisesFisher, q: VonMisesFisher) -> Tensor:
    """log C(kappa_p) - log C(kappa_q) + A(kappa_p) (kappa_p - kappa_q mu_p.mu_q), without cancellation."""
    if p.dim != q.dim:
        raise ValueError(f"p and q must lie on the same sphere, got n = {p.dim} and {q.dim}")
    kappa_p, kappa_q = p.concentration.double(), q.concentration.double()
    apart = (p.loc.double() - q.loc.double()).square().sum(dim=-1)
    pull = (kappa_p - kappa_q) + 0.5 * kappa_q * apart
    normalizers = log_vmf_normalizer_difference(kappa_p, kappa_q, p.dim)
    return (normalizers + mean_resultant_length(kappa_p, p.dim) * pull).to(p.loc.dtype)


def _kl_vmf_uniform(p: VonMisesFisher, q: HypersphericalUniform) -> Tensor:
    """log C(kappa) - log C(0) + kappa A(kappa)."""
    if p.dim != q.dim:
        raise ValueError(f"p and q must lie on the same sphere, got n = {p.dim} and {q.dim}")
    kappa = p.concentration.double()
    normalizers = log_vmf_normalizer_difference(kappa, torch.zeros_like(kappa), p.dim)
    return (normalizers + kappa * mean_resultant_length(kappa, p.dim)).to(p.loc.dtype)


register_kl(VonMisesFisher, VonMisesFisher)(_kl_vmf_vmf)
register_kl(VonMisesFisher, HypersphericalUniform)(_kl_vmf_uniform)
