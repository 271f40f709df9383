"""Momentum contrast with a queue, for one view per encoder or for groups of views (DSF paper, CIFAR experiments).

Shapes: B batch, V views per encoder, C channels, H height, W width, D embedding dimension, K keys in the queue.
"""

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from hyperspherical.gather import gather_detached
from hyperspherical.similarity import CosineSimilarity, DivergenceSimilarity, VonMisesParameters

from .base import Batch, Encoder, Features, Method, Progress, StepOutput, update_moving_average


class MoCo(Method):
    """InfoNCE of queries with their own key against a queue of earlier keys.

    Half of a batch's views are queries, encoded with gradient; the other half are keys, encoded by a moving average of
    the encoder. Each group of views is summarised by the similarity (`fit`), and the queue keeps one mean direction per
    image. Keys are encoded in a random order, so that batch statistics do not tell which key belongs to which query.

    Args:
        encoder: images (B, C, H, W) -> Features.
        similarity: how groups of views are summarised and compared.
        queue_size: K.
        momentum: decay per step of the key encoder's parameters; its running statistics come from its own batches.
        symmetric: also contrast the second half of the views, as queries, with the first.
    """

    queue_KD: Tensor
    queue_position: Tensor

    def __init__(
        self,
        encoder: Encoder,
        similarity: CosineSimilarity | DivergenceSimilarity,
        *,
        queue_size: int = 4096,
        momentum: float = 0.99,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)
        self.similarity = similarity
        self.momentum = momentum
        self.symmetric = symmetric
        self.register_buffer("queue_KD", F.normalize(torch.randn(queue_size, encoder.embedding_size), dim=1))
        self.register_buffer("queue_position", torch.zeros((), dtype=torch.long))

    def training_step(self, batch: Batch, progress: Progress, generator: torch.Generator | None) -> StepOutput:
        views = batch.images_BVCHW.shape[1]
        if views < 2 or views % 2:
            raise ValueError(
                f"images_BVCHW has {views} views, allowed is an even number: half are queries, half are keys"
            )
        # Before the forward pass, as in the published code, so that keys see the encoder of the previous step.
        update_moving_average(self.key_encoder, self.encoder, self.momentum, buffers=False)
        first_BVCHW, second_BVCHW = batch.images_BVCHW.chunk(2, dim=1)
        loss, keys, logs = self._contrast(first_BVCHW, second_BVCHW, generator)
        new_keys = [keys.mean_direction]
        if self.symmetric:
            other, keys, _ = self._contrast(second_BVCHW, first_BVCHW, generator)
            loss = loss + other
            new_keys.append(keys.mean_direction)
        self._enqueue(gather_detached(torch.cat(new_keys)))
        return StepOutput(loss, logs)

    def encode(self, images_BCHW: Tensor) -> Features:
        features: Features = self.encoder(images_BCHW)
        return features

    def _contrast(
        self, queries_BVCHW: Tensor, keys_BVCHW: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, VonMisesParameters, dict[str, Tensor]]:
        """Cross entropy of each query with its key first and the queue behind it; the keys; logs."""
        queries = self.similarity.fit(self._embed(self.encoder, queries_BVCHW))
        with torch.no_grad():
            keys = self.similarity.fit(self._embed_shuffled(keys_BVCHW, generator))
        positive_B = self.similarity.pairwise(queries, keys)
        negative_BK = self.similarity(queries, self._queue(queries, keys))
        logits = torch.cat([positive_B[:, None], negative_BK], dim=1)
        targets_B = logits.new_zeros(len(logits), dtype=torch.long)
        alignment = (queries.mean_direction * keys.mean_direction).sum(-1).mean()
        logs = {"alignment": alignment.detach(), "pretext_accuracy": (logits.argmax(1) == 0).float().mean()}
        return F.cross_entropy(logits, targets_B), keys, logs

    def _queue(self, queries: VonMisesParameters, keys: VonMisesParameters) -> VonMisesParameters:
        """The queue's directions with one concentration for all: the batch's mean, without gradient, as published."""
        concentration = torch.cat([queries.concentration, keys.concentration]).detach().mean()
        return VonMisesParameters(self.queue_KD, concentration.expand(len(self.queue_KD)))

    def _embed(self, encoder: Encoder, images_BVCHW: Tensor) -> Tensor:
        """Unit embeddings (B, V, D) of all views."""
        batch, views = images_BVCHW.shape[:2]
        embedding = encoder(images_BVCHW.flatten(0, 1)).embedding_BD
        return F.normalize(embedding.float(), dim=1).view(batch, views, -1)

    def _embed_shuffled(self, images_BVCHW: Tensor, generator: torch.Generator | None) -> Tensor:
        images = images_BVCHW.flatten(0, 1)
        order = torch.randperm(len(images), generator=generator, device=images.device)
        embedding = self.key_encoder(images[order]).embedding_BD[order.argsort()]
        return F.normalize(embedding.float(), dim=1).view(*images_BVCHW.shape[:2], -1)

    @torch.no_grad()
    def _enqueue(self, keys_BD: Tensor) -> None:
        """Writes keys over the oldest ones, around the queue's end."""
        size = len(self.queue_KD)
        places = (self.queue_position + torch.arange(len(keys_BD), device=keys_BD.device)) % size
        self.queue_KD[places[-size:]] = keys_BD[-size:].to(self.queue_KD.dtype)
        self.queue_position.copy_((self.queue_position + len(keys_BD)) % size)
