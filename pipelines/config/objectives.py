"""The softmax objectives of the vMF study: one dataclass each, which builds its loss."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from .constraints import Count, CountFromZero, OpenShare, Positive, Range

if TYPE_CHECKING:
    from hyperspherical import losses

Margin = Annotated[float, Range(0, 3.141592653589793)]
LogInverseTemperature = Annotated[float, Range(-20, 20)]


@dataclass(frozen=True, kw_only=True)
class Standard:
    """STANDARD: plain inner products with the class matrix."""

    def build(self, num_classes: int, embedding_size: int) -> "losses.SoftmaxLoss":
        from hyperspherical.losses import SoftmaxLoss

        return SoftmaxLoss(num_classes, embedding_size)


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """COSINE: cosines times a learned inverse temperature."""

    log_inverse_temperature: LogInverseTemperature = 0.0
    """Start value of tau; logits are exp(tau) cos."""

    def build(self, num_classes: int, embedding_size: int) -> "losses.CosineSoftmaxLoss":
        from hyperspherical.losses import CosineSoftmaxLoss

        return CosineSoftmaxLoss(num_classes, embedding_size, log_inverse_temperature=self.log_inverse_temperature)


@dataclass(frozen=True, kw_only=True)
class ArcFace:
    """ARCFACE: COSINE with an additive angular margin on the true class."""

    margin: Margin = 0.5
    """Margin m in radians."""
    margin_free_epochs: CountFromZero = 0
    """Epochs at the start of training with m = 0."""
    log_inverse_temperature: LogInverseTemperature = 0.0
    """Start value of tau; logits are exp(tau) cos."""
    form: Literal["published", "monotone"] = "published"
    """What happens beyond theta + m = pi: cos(theta + m) as published, or its monotone continuation."""

    def build(self, num_classes: int, embedding_size: int) -> "losses.ArcFaceLoss":
        from hyperspherical.losses import ArcFaceLoss

        return ArcFaceLoss(
            num_classes,
            embedding_size,
            margin=self.margin,
            log_inverse_temperature=self.log_inverse_temperature,
            form=self.form,
        )


@dataclass(frozen=True, kw_only=True)
class Hyperbolic:
    """HYPERBOLIC: multinomial logistic regression on the Poincare ball."""

    curvature: Positive = 1e-5
    """c > 0 of a ball of curvature -c and radius 1/sqrt(c)."""

    def build(self, num_classes: int, embedding_size: int) -> "losses.HyperbolicSoftmaxLoss":
        from hyperspherical.losses import HyperbolicSoftmaxLoss

        return HyperbolicSoftmaxLoss(num_classes, embedding_size, curvature=self.curvature)


@dataclass(frozen=True, kw_only=True)
class VonMisesFisher:
    """VMF: embeddings and classes are von Mises-Fisher distributions (supplement, Eq. 13)."""

    ratio: OpenShare = 0.4
    """lambda: the mean resultant length at which concentrations start (Eq. 14)."""
    log_inverse_temperature: LogInverseTemperature = 0.0
    """Start value of tau; beta = exp(tau)."""
    num_samples: Count = 10
    """Draws of every embedding, S, in training and in prediction."""
    normalizer: Literal["exact", "published"] = "exact"
    """log C_n(kappa): exact, or the paper's approximation (Eq. 12)."""
    sampler: Literal["exact", "published"] = "exact"
    """How embeddings are drawn: exactly, or by the official code's rejection scheme, which is biased for n > 8."""
    embedding_scale: Literal["published", "exact_mean"] = "published"
    """alpha by Eq. 16, or from the mean embedding norm itself (Eq. 15)."""

    def build(self, num_classes: int, embedding_size: int) -> "losses.VonMisesFisherLoss":
        from hyperspherical.losses import VonMisesFisherLoss

        return VonMisesFisherLoss(
            num_classes,
            embedding_size,
            ratio=self.ratio,
            log_inverse_temperature=self.log_inverse_temperature,
            num_samples=self.num_samples,
            normalizer=self.normalizer,
            sampler=self.sampler,
        )


Objective = Standard | Cosine | ArcFace | Hyperbolic | VonMisesFisher
