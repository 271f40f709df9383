"""Recipes cut down to the digits data set, so that a whole run takes seconds."""

import dataclasses
from pathlib import Path
from typing import Any

from pipelines.config import AmcCnn, Config, Episodes, MoCo, PairContrastive, ResNet, Shuffled, change
from pipelines.plan import shorten
from pipelines.recipes import recipe


def small(name: str, root: Path, **changes: Any) -> Config:
    """The recipe on 8 x 8 digits with a few short epochs; `changes` are fields of `Config`."""
    config = recipe(name)
    data = dataclasses.replace(config.data, name="digits", evaluation_batch_size=100)
    if isinstance(data.order, Episodes):
        data = dataclasses.replace(data, order=Episodes(classes=10, images_per_class=4, per_epoch=5))
    else:
        data = dataclasses.replace(data, order=Shuffled(batch_size=16))
    backbone = config.backbone
    if isinstance(backbone, ResNet):
        backbone = ResNet(
            depth=18, width=8, embedding_size=16, head="mlp", batch_norm_splits=backbone.batch_norm_splits
        )
    if isinstance(backbone, AmcCnn):
        # That network needs 12 pixels, the digits have 8.
        backbone = ResNet(depth=18, width=8, embedding_size=16)
    config = dataclasses.replace(config, data=data, backbone=backbone, root=str(root), device="cpu", threads=1)
    if isinstance(config.method, MoCo):
        config = change(config, {"method.queue_size": 64, "monitor.neighbours": 10})
    if isinstance(config.method, PairContrastive):
        config = change(config, {"method.averaging": 0.9})
    config, _ = shorten(dataclasses.replace(config, epochs=recipe(name).epochs), changes.pop("epochs", 2))
    return dataclasses.replace(config, **changes)
