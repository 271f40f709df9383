"""The configuration of a run: frozen dataclasses, from which the command line is made and `config.json` written.

`Config` names the data, the network, the method with its objective, and how they are optimised. Every member builds its
own part, so a new objective, network or method needs no change elsewhere.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pipelines.evaluation import Classification, NearestNeighbours

from .backbones import AmcCnn, Backbone, DigitsCnn, ResNet
from .constraints import Count, CountFromZero, faults
from .methods import Angular, CosineSimilarity, Divergence, Euclidean, MoCo, PairContrastive, Supervised
from .objectives import ArcFace, Cosine, Hyperbolic, Objective, Standard, VonMisesFisher
from .optimization import Adam, Constant, HalfCosine, Optimizer, Plateau, RampUpDown, Schedule, Sgd
from .serial import ConfigurationError, change, digest, field_names, from_dict, get, nearest, to_dict

__all__ = [
    "Adam", "AmcCnn", "Angular", "ArcFace", "Backbone", "Classification", "Config", "ConfigurationError", "Constant",
    "Cosine", "CosineSimilarity", "Data", "DigitsCnn", "Divergence", "Episodes", "Euclidean", "HalfCosine",
    "Hyperbolic", "MoCo", "NearestNeighbours", "Objective", "PairContrastive", "Plateau", "RampUpDown", "ResNet",
    "Sgd", "Shuffled", "Standard", "Supervised", "VonMisesFisher", "change", "digest", "field_names", "from_dict",
    "get", "identity", "load", "nearest", "to_dict", "validate",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Batches of N classes with K images each, drawn anew for every batch."""

    classes: Count
    """N, classes in a batch."""
    images_per_class: Count
    """K, images of each class."""
    per_epoch: Count
    """Batches that make one epoch."""


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """Every image once an epoch, in a new order; the last incomplete batch is left out."""

    batch_size: Count
    """Images in a batch over all workers."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which images are read, in which order, and how they are augmented."""

    name: str
    """A data set of `hyperspherical prepare --list`."""
    order: Episodes | Shuffled
    train_split: Literal["train", "train_full"] = "train"
    """"train" leaves 15 % of the official training images for validation, "train_full" does not."""
    validation_split: Literal["validation", "test"] = "validation"
    """What the monitor sees after every epoch."""
    train_views: tuple[tuple[str, int], ...] = (("plain", 1),)
    """Augmentation presets and how many views of each image they give."""
    evaluation_view: str = "plain"
    """Preset of validation and test images."""
    evaluation_batch_size: Count = 1000
    labels: str = "label"
    """Which of the data set's labels are learned."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run, whole: what `config.json` holds."""

    recipe: Annotated[str, tyro.conf.Suppress]
    """The recipe this configuration started from."""
    data: Data
    backbone: Backbone
    method: Supervised | PairContrastive | MoCo
    optimizer: Optimizer
    schedule: Schedule = field(default_factory=Constant)
    monitor: Classification | NearestNeighbours = field(default_factory=Classification)
    """What is measured on the validation split after every epoch; its accuracy selects and stops."""
    selection: Literal["best", "last"] = "best"
    """Which epoch's weights are the result."""
    epochs: Count = 1000
    early_stop_epochs: Count | None = 35
    """Epochs without a better accuracy after which training stops; None never stops."""
    seed: CountFromZero = 1234
    root: str = "data"
    """Folder of the prepared data sets."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; auto takes a GPU if there is one."""
    precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    """Automatic mixed precision; auto is bf16 on a GPU that has it, else none."""
    workers: Count = 1
    """Processes that share each batch, under Ray Train when there are several."""
    synchronize_batch_norm: bool = False
    """Take batch statistics over all workers, so that several train as one would."""
    threads: Count | None = None
    """CPU threads of each worker; None leaves PyTorch's choice."""

    def own_faults(self) -> list[str]:
        found = []
        order, views = self.data.order, sum(count for _, count in self.data.train_views)
        if isinstance(order, Shuffled) and order.batch_size % self.workers:
            allowed = f"allowed is a multiple of workers = {self.workers}"
            found.append(f"data.order.batch_size is {order.batch_size}, {allowed}")
        if isinstance(self.method, MoCo) and (views < 2 or views % 2):
            allowed = "allowed is an even number: half are queries, half are keys"
            found.append(f"data.train_views give {views} views, {allowed}")
        if isinstance(self.method, MoCo) and isinstance(self.monitor, Classification):
            found.append("monitor is Classification, allowed for MoCo is NearestNeighbours: it has no classifier")
        if self.synchronize_batch_norm and get(self, "backbone.batch_norm_splits", 1) > 1:
            found.append("synchronize_batch_norm is True, allowed with backbone.batch_norm_splits above 1 is False")
        return found


def validate(config: Config) -> Config:
    """Returns the configuration, or raises `ConfigurationError` with all of its faults."""
    if found := faults(config):
        raise ConfigurationError(found)
    return config


def load(path: Path) -> Config:
    """Reads a `config.json`. Raises `ConfigurationError` naming the file and every fault."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError([f"{path} cannot be read as a configuration: {error}"]) from None
    return validate(from_dict(Config, values))


def identity(config: Config) -> str:
    """Eight hexadecimal digits of everything that decides the outcome, so not of where the data lie."""
    return digest({name: value for name, value in to_dict(config).items() if name != "root"})
