"""The networks of the three papers: one dataclass each, which builds an encoder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .constraints import Count, NonNegative, OpenShare

if TYPE_CHECKING:
    from pipelines.backbones import Encoder


@dataclass(frozen=True, kw_only=True)
class DigitsCnn:
    """The small network of MNIST and Fashion-MNIST (vMF supplement, D.1)."""

    embedding_size: Count = 3
    """n, the embedding's dimension."""

    def build(self, image_shape: tuple[int, int, int]) -> "Encoder":
        from pipelines import backbones

        return backbones.digits_cnn(image_shape, self.embedding_size)


@dataclass(frozen=True, kw_only=True)
class AmcCnn:
    """The 28 x 28 network of the AMC paper: noise, three convolutions, a 1 x 1 convolution, global average."""

    widths: tuple[int, int, int, int] = (64, 64, 128, 64)
    """Channels of the three convolutions and of the 1 x 1 convolution, whose average is the feature."""
    noise: NonNegative = 0.15
    """Standard deviation of the Gaussian noise on the pixels in training."""
    dropout: OpenShare = 0.5
    """Share of activations dropped after each pooling in training."""

    def own_faults(self) -> list[str]:
        return [f"widths are {self.widths}, allowed are positive numbers"] if min(self.widths) < 1 else []

    def build(self, image_shape: tuple[int, int, int]) -> "Encoder":
        from pipelines import backbones

        return backbones.amc_cnn(image_shape, self.widths, self.noise, self.dropout)


@dataclass(frozen=True, kw_only=True)
class ResNet:
    """A residual network with the stem of 32-pixel images."""

    depth: Literal[18, 34, 50] = 18
    embedding_size: Count = 128
    """n, the size of the last layer."""
    width: Count = 64
    """Channels of the first stage; 64 is the standard network."""
    max_pool: bool = False
    """Keep the stem's 3 x 3 max-pooling with stride 2."""
    head: Literal["linear", "mlp"] = "linear"
    """The map from pooled features to the embedding: one layer, or MoCo v2's two layers with a ReLU."""
    batch_norm_splits: Count = 1
    """In training, batch statistics are taken over every so-many-th sample (MoCo on one device)."""

    def build(self, image_shape: tuple[int, int, int]) -> "Encoder":
        from pipelines import backbones

        return backbones.resnet(
            image_shape,
            depth=self.depth,
            embedding_size=self.embedding_size,
            width=self.width,
            max_pool=self.max_pool,
            head=self.head,
            batch_norm_splits=self.batch_norm_splits,
        )


Backbone = DigitsCnn | AmcCnn | ResNet
