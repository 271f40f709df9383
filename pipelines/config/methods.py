"""What is trained: one dataclass per method, which builds the module that the training loop drives."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from .constraints import Count, CountFromZero, NonNegative, OpenShare, Positive, Range, Share
from .objectives import Objective, VonMisesFisher

if TYPE_CHECKING:
    from torch import nn

    from hyperspherical import similarity
    from hyperspherical.methods import Method

    from .backbones import Backbone

Angle = Annotated[float, Range(0, 3.141592653589793, open_low=True)]
Shrinkage = Annotated[float, Range(0, 1, open_low=True)]


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """One encoder and one softmax objective."""

    objective: Objective

    def build(self, backbone: "Backbone", num_classes: int, image_shape: tuple[int, int, int]) -> "Method":
        from hyperspherical import methods

        encoder = backbone.build(image_shape)
        objective = self.objective.build(num_classes, encoder.embedding_size)
        estimate = self.objective.embedding_scale if isinstance(self.objective, VonMisesFisher) else None
        margin_free_epochs = getattr(self.objective, "margin_free_epochs", 0)
        return methods.Supervised(encoder, objective, margin_free_epochs=margin_free_epochs, scale_estimate=estimate)


@dataclass(frozen=True, kw_only=True)
class Angular:
    """AMC: squared geodesic angles of pairs, dissimilar pairs pushed beyond a margin."""

    margin: Angle = 0.5
    """m_g in radians."""

    def build(self) -> "nn.Module":
        from hyperspherical.losses import AngularMarginContrastiveLoss

        return AngularMarginContrastiveLoss(margin=self.margin)


@dataclass(frozen=True, kw_only=True)
class Euclidean:
    """Euclidean contrastive loss of pairs, the AMC paper's partner."""

    margin: Positive = 1.0
    """m_e in units of the feature space."""

    def build(self) -> "nn.Module":
        from hyperspherical.losses import EuclideanContrastiveLoss

        return EuclideanContrastiveLoss(margin=self.margin)


@dataclass(frozen=True, kw_only=True)
class PairContrastive:
    """Cross entropy plus a contrastive term over the pairs of a batch's two halves (AMC paper, Algorithm 1)."""

    contrast: Angular | Euclidean | None
    """The term on pairs; None is cross entropy alone."""
    weight: NonNegative = 0.1
    """lambda, the weight of the term after its ramp-up."""
    ramp_up_epochs: CountFromZero = 80
    """R: the weight is lambda exp(-5 (1 - epoch / R)^2) before epoch R, and zero in the first epoch."""
    pair_labels: Literal["predicted", "true"] = "predicted"
    """Which labels decide that a pair is similar (Eq. 3 takes the predicted ones)."""
    averaging: Share = 0.999
    """Decay per step of the moving average of all weights that is evaluated."""

    def build(self, backbone: "Backbone", num_classes: int, image_shape: tuple[int, int, int]) -> "Method":
        from hyperspherical import methods

        return methods.PairContrastive(
            backbone.build(image_shape),
            num_classes,
            contrast=self.contrast.build() if self.contrast else None,
            weight=self.weight,
            ramp_up_epochs=self.ramp_up_epochs,
            pair_labels=self.pair_labels,
            averaging=self.averaging,
        )


@dataclass(frozen=True, kw_only=True)
class CosineSimilarity:
    """Cosine between one query view and one key view."""

    temperature: Positive = 0.1
    """Divides the cosine."""

    def build(self) -> "similarity.CosineSimilarity":
        from hyperspherical.similarity import CosineSimilarity as Similarity

        return Similarity(temperature=self.temperature)


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """DSF: minus the divergence between von Mises-Fisher distributions fitted to each group of views (Eqs. 3-12)."""

    temperature: Positive = 1.0
    """Divides the divergence."""
    shrinkage: Shrinkage = 0.95
    """gamma: factor on the mean resultant length of the views."""
    mean_length: Literal["published", "exact"] = "published"
    """The factor A of the divergence: the shrunk length as published, or A_D(kappa), which makes it a true KL."""

    def build(self) -> "similarity.DivergenceSimilarity":
        from hyperspherical.similarity import DivergenceSimilarity

        return DivergenceSimilarity(
            temperature=self.temperature, shrinkage=self.shrinkage, mean_length=self.mean_length
        )


@dataclass(frozen=True, kw_only=True)
class MoCo:
    """Momentum contrast with a queue: half of the views are queries, half are keys (DSF paper, CIFAR experiments)."""

    similarity: CosineSimilarity | Divergence
    queue_size: Count = 4096
    """Keys kept as negatives."""
    momentum: OpenShare = 0.99
    """Of the key encoder's moving average."""
    symmetric: bool = False
    """Also contrast the second half of the views, as queries, with the first."""

    def build(self, backbone: "Backbone", num_classes: int, image_shape: tuple[int, int, int]) -> "Method":
        from hyperspherical import methods

        return methods.MoCo(
            backbone.build(image_shape),
            self.similarity.build(),
            queue_size=self.queue_size,
            momentum=self.momentum,
            symmetric=self.symmetric,
        )
