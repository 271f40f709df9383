"""Encoders of the three papers. An encoder maps images (B, C, H, W) to `Features(backbone, embedding)`.

Shapes: B batch, C channels, H height, W width, D features.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hyperspherical.methods import Encoder

ImageShape = tuple[int, int, int]
"""Channels, height, width."""


def digits_cnn(image_shape: ImageShape, embedding_size: int) -> Encoder:
    """Two blocks of 5 x 5 convolution, batch norm, ReLU, pooling; 120 units; n units (vMF supplement, D.1)."""
    channels, height, width = image_shape
    _require(
        min(height, width) >= 4, f"the digits CNN needs images of at least 4 x 4 pixels, these are {height} x {width}"
    )
    trunk = nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (height // 4) * (width // 4), 120), nn.BatchNorm1d(120), nn.ReLU(),
    )  # fmt: skip
    encoder = Encoder(trunk, nn.Linear(120, embedding_size), 120, embedding_size)
    for part in encoder.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return encoder


def amc_cnn(image_shape: ImageShape, widths: tuple[int, int, int, int], noise: float, dropout: float) -> Encoder:
    """The AMC paper's 28 x 28 network; the average of its last maps is both feature and embedding."""
    channels, height, width = image_shape
    _require(
        min(height, width) >= 12, f"the AMC CNN needs images of at least 12 x 12 pixels, these are {height} x {width}"
    )

    def block(c_in: int, c_out: int, kernel: int, padding: int) -> nn.Sequential:
        convolution = nn.Conv2d(c_in, c_out, kernel, padding=padding, bias=False)
        nn.init.xavier_uniform_(convolution.weight)
        # Batch statistics as in the TensorFlow code: running averages decay by 0.999, epsilon 1e-3, no scale.
        norm = nn.BatchNorm2d(c_out, eps=1e-3, momentum=1e-3)
        norm.weight.requires_grad_(False)
        return nn.Sequential(convolution, norm, nn.LeakyReLU(0.1))

    first, second, third, last = widths
    trunk = nn.Sequential(
        GaussianNoise(noise),
        block(channels, first, 3, 1), nn.MaxPool2d(2), nn.Dropout(dropout),
        block(first, second, 3, 1), nn.MaxPool2d(2), nn.Dropout(dropout),
        block(second, third, 3, 0), block(third, last, 1, 0),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    return Encoder(trunk, nn.Identity(), last, last)


def resnet(
    image_shape: ImageShape,
    *,
    depth: int,
    embedding_size: int,
    width: int = 64,
    max_pool: bool = False,
    head: str = "linear",
    batch_norm_splits: int = 1,
) -> Encoder:
    """torchvision's residual network with a 3 x 3 stem of stride 1, for images of about 32 pixels."""
    from torchvision.models import resnet as library

    channels, height, width_px = image_shape
    _require(
        min(height, width_px) >= 8, f"a ResNet needs images of at least 8 x 8 pixels, these are {height} x {width_px}"
    )
    block, layers = {
        18: (library.BasicBlock, [2, 2, 2, 2]),
        34: (library.BasicBlock, [3, 4, 6, 3]),
        50: (library.Bottleneck, [3, 4, 6, 3]),
    }[depth]

    def norm(features: int) -> nn.Module:
        return SplitBatchNorm2d(features, batch_norm_splits) if batch_norm_splits > 1 else nn.BatchNorm2d(features)

    class Trunk(library.ResNet):
        """torchvision's network with `width` in place of its 64 channels."""

        def _make_layer(self, block: type[nn.Module], planes: int, *rest: Any, **options: Any) -> nn.Sequential:
            if planes == 64:
                self.inplanes = width
            return super()._make_layer(block, planes * width // 64, *rest, **options)

    trunk = Trunk(block, layers, zero_init_residual=depth >= 50, norm_layer=norm)
    trunk.conv1, trunk.bn1 = nn.Conv2d(channels, width, 3, padding=1, bias=False), norm(width)
    nn.init.kaiming_normal_(trunk.conv1.weight, mode="fan_out", nonlinearity="relu")
    if not max_pool:
        trunk.maxpool = nn.Identity()
    backbone_size = 8 * width * block.expansion
    trunk.fc = nn.Identity()
    return Encoder(trunk, _head(head, backbone_size, embedding_size), backbone_size, embedding_size)


def _head(kind: str, backbone_size: int, embedding_size: int) -> nn.Module:
    last = nn.Linear(backbone_size, embedding_size)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(backbone_size, backbone_size), nn.ReLU(), last)
    nn.init.zeros_(last.bias)
    return last


class GaussianNoise(nn.Module):
    """Adds normal noise to the pixels in training."""

    def __init__(self, standard_deviation: float) -> None:
        super().__init__()
        self.standard_deviation = standard_deviation

    def forward(self, images_BCHW: Tensor) -> Tensor:
        if not self.training or self.standard_deviation == 0:
            return images_BCHW
        return images_BCHW + self.standard_deviation * torch.randn_like(images_BCHW)


class SplitBatchNorm2d(nn.BatchNorm2d):
    """In training, statistics of parts of the batch, as several devices would have; running ones are averaged.

    Part p holds the samples p, p + splits, p + 2 splits, ..., so that views of one image, which lie side by side, fall
    into different parts. MoCo needs this on one device, together with shuffled keys: statistics shared by the views of
    an image, or by a query and its key, would give away which belong together.
    """

    def __init__(self, num_features: int, splits: int) -> None:
        super().__init__(num_features)
        self.splits = splits

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not self.track_running_stats:
            return super().forward(input)
        batch, channels, height, width = input.shape
        _require(
            batch % self.splits == 0,
            f"a batch norm over {self.splits} parts needs a batch that divides by {self.splits}, this one has {batch}",
        )
        assert self.running_mean is not None and self.running_var is not None, "running statistics are always tracked"
        assert self.num_batches_tracked is not None and self.momentum is not None
        # The parts become channels of one batch norm: part p, channel c is channel p * C + c.
        parted = input.reshape(batch // self.splits, self.splits * channels, height, width)
        mean, variance = self.running_mean.repeat(self.splits), self.running_var.repeat(self.splits)
        weight, bias = self.weight.repeat(self.splits), self.bias.repeat(self.splits)
        output = F.batch_norm(parted, mean, variance, weight, bias, True, self.momentum, self.eps)
        with torch.no_grad():
            self.running_mean.copy_(mean.view(self.splits, channels).mean(0))
            self.running_var.copy_(variance.view(self.splits, channels).mean(0))
            self.num_batches_tracked += 1
        return output.view(batch, channels, height, width)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
