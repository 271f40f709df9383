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
        """Faults that concern several parts at once."""
        found: list[str] = []

        def require(fine: bool, given: str, allowed: str) -> None:
            if not fine:
                found.append(f"{given}, allowed is {allowed}")

        order, method = self.data.order, self.method
        if isinstance(order, Episodes):
            size, field = order.classes * order.images_per_class, "data.order.classes times images_per_class"
        else:
            size, field = order.batch_size, "data.order.batch_size"
            require(size % self.workers == 0, f"{field} is {size}", f"a multiple of workers = {self.workers}")
        local, views = size // self.workers, sum(count for _, count in self.data.train_views)
        seen = f"data.train_views give {views} views"
        if isinstance(method, MoCo):
            require(views >= 2 and views % 2 == 0, seen, "an even number: half are queries, half are keys")
            if isinstance(method.similarity, CosineSimilarity):
                require(views == 2, seen, "2 for the cosine, one view for each encoder")
            splits = get(self, "backbone.batch_norm_splits", 1)
            encoded = local * views // 2
            require(encoded % splits == 0, f"a worker encodes {encoded} views", f"a multiple of splits = {splits}")
            whole = not self.synchronize_batch_norm or splits == 1
            require(whole, "synchronize_batch_norm is True", "False with batch_norm_splits above 1")
            by_embedding = isinstance(self.monitor, NearestNeighbours)
            require(by_embedding, "monitor is Classification", "NearestNeighbours: MoCo has no classifier")
        else:
            require(views == 1, seen, "1 for this method")
        if isinstance(method, PairContrastive):
            require(local % 2 == 0, f"{field} is {size}", "an even number for each worker: pairs come from its halves")
        if isinstance(get(method, "objective"), VonMisesFisher):
            dim = get(self, "backbone.embedding_size", 2)
            require(dim >= 2, f"backbone.embedding_size is {dim}", "at least 2 for a von Mises-Fisher distribution")
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
