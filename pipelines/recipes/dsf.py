"""The DSF paper: momentum contrast on CIFAR-10 with the cosine of two views, and with DSF of four views per encoder.

    hyperspherical train dsf/cifar10-moco-dsf

Paper (Table 1): MoCo, 800 epochs, kNN 88.44 %; DSF, 250 epochs, kNN 90.04 %, one seed.
"""

from pipelines.config import (
    Config,
    CosineSimilarity,
    Data,
    Divergence,
    HalfCosine,
    MoCo,
    NearestNeighbours,
    ResNet,
    Sgd,
    Shuffled,
)


def cifar10_row(
    name: str, similarity: CosineSimilarity | Divergence, views: int, batch_size: int, learning_rate: float, epochs: int
) -> Config:
    """One CIFAR-10 row of Table 1; `views` counts both encoders."""
    return Config(
        recipe=name,
        data=Data(
            name="cifar10",
            order=Shuffled(batch_size=batch_size),
            train_split="train_full",
            train_views=(("dsf_cifar", views),),
            evaluation_view="dsf_cifar_eval",
            evaluation_batch_size=250,
        ),
        backbone=ResNet(depth=18, embedding_size=128, head="mlp", batch_norm_splits=8),
        method=MoCo(similarity=similarity, queue_size=4096, momentum=0.99),
        optimizer=Sgd(learning_rate=learning_rate, momentum=0.9, weight_decay=5e-4),
        schedule=HalfCosine(),
        monitor=NearestNeighbours(neighbours=200, temperature=0.1),
        selection="last",
        epochs=epochs,
        early_stop_epochs=None,
        seed=920,
    )


def recipes() -> dict[str, Config]:
    rows = [
        cifar10_row("dsf/cifar10-moco-cosine", CosineSimilarity(temperature=0.1), 2, 1024, 0.12, 800),
        cifar10_row("dsf/cifar10-moco-dsf", Divergence(), 8, 256, 0.06, 250),
    ]
    return {row.recipe: row for row in rows}
