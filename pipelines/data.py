"""The loaders of a run: training batches, validation, and the images that neighbours are taken from."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator

from data_prep import loading
from data_prep.prepared import open_split

from .config import Config, Episodes
from .evaluation import EvaluationData

INITIAL_BATCH_SIZE = 256
"""Of the pass that estimates what depends on the training images, as in the vMF paper's code."""


class RunData:
    """Everything a run reads, opened on demand and closed by `open_data`."""

    def __init__(self, config: Config, rank: int, world: int, device: torch.device) -> None:
        self.config, self.rank, self.world, self.device = config, rank, world, device
        self.opened: list[loading.Loader] = []
        self.sequential: dict[str, loading.Loader] = {}
        order = config.data.order
        if isinstance(order, Episodes):
            episodes = loading.Episodes(order.classes, order.images_per_class, order.per_epoch)
            batch_size = order.classes * order.images_per_class
            self.training = self._loader(config.data.train_split, episodes, batch_size, config.data.train_views)
        else:
            shuffled, batch_size = loading.Shuffled(), order.batch_size
            self.training = self._loader(config.data.train_split, shuffled, batch_size, config.data.train_views)
        self.num_classes = self.training.num_classes
        self.image_shape = self.training.image_shape

    def evaluation(self, split: str, bank_split: str = "train") -> EvaluationData:
        """A split in order, without augmentation; neighbours come from `bank_split`."""
        return EvaluationData(
            name=f"{self.config.data.name} {split}",
            queries=self._sequential(split),
            bank=partial(self._sequential, bank_split),
            num_classes=self.num_classes,
            device=self.device,
            seed=self.config.seed,
        )

    def initial_batches(self) -> Iterator[loading.Batch]:
        """All training images once in order, augmented as in training; every worker sees all of them."""
        views = self.config.data.train_views
        split = self.config.data.train_split
        loader = self._loader(split, loading.Sequential(), INITIAL_BATCH_SIZE, views, alone=True)
        yield from loader.epoch(0)

    def _sequential(self, split: str) -> loading.Loader:
        if split not in self.sequential:
            size, views = self.config.data.evaluation_batch_size, ((self.config.data.evaluation_view, 1),)
            self.sequential[split] = self._loader(split, loading.Sequential(), size, views)
        return self.sequential[split]

    def _loader(
        self,
        split: str,
        order: loading.Order,
        batch_size: int,
        views: tuple[tuple[str, int], ...],
        alone: bool = False,
    ) -> loading.Loader:
        loader = loading.Loader(
            open_split(Path(self.config.root), self.config.data.name, split),
            batch_size=batch_size,
            order=order,
            views=views,
            rank=0 if alone else self.rank,
            world=1 if alone else self.world,
            seed=self.config.seed,
            device=self.device,
            labels=self.config.data.labels,
            threads=self.config.threads,
        )
        self.opened.append(loader)
        return loader

    def close(self) -> None:
        for loader in self.opened:
            loader.close()


@contextmanager
def open_data(config: Config, accelerator: Accelerator) -> Iterator[RunData]:
    """The data of a run for one worker; readers are closed at the end, whatever happens."""
    data = RunData(config, accelerator.process_index, accelerator.num_processes, accelerator.device)
    try:
        yield data
    finally:
        data.close()
