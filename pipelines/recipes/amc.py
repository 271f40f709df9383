"""The AMC paper: cross entropy alone, with Euclidean contrast, and with angular margin contrast (its Table 1).

    hyperspherical train amc/mnist-amc

Paper: 300 epochs of Adam on one GPU, mean of 5 runs; MNIST 99.63 (-ce), 99.65 (-eucd), 99.66 % (-amc) on the test set.
It does not say how MNIST enters its 32 x 32 network; here the 28 x 28 network of its visualisations is used.
"""

from pipelines.config import (
    Adam,
    AmcCnn,
    Angular,
    Config,
    Data,
    Euclidean,
    PairContrastive,
    RampUpDown,
    Shuffled,
)

CONTRASTS = {"ce": None, "eucd": Euclidean(margin=1.0), "amc": Angular(margin=0.5)}


def mnist_row(contrast: str) -> Config:
    """The MNIST column of Table 1, one of its three rows."""
    return Config(
        recipe=f"amc/mnist-{contrast}",
        data=Data(
            name="mnist",
            order=Shuffled(batch_size=128),
            train_split="train_full",
            validation_split="test",
            train_views=(("amc_translate", 1),),
            evaluation_view="plain_256",
            evaluation_batch_size=500,
        ),
        backbone=AmcCnn(),
        method=PairContrastive(contrast=CONTRASTS[contrast], weight=0.1, ramp_up_epochs=80),
        optimizer=Adam(learning_rate=0.003),
        schedule=RampUpDown(ramp_up_epochs=80, ramp_down_epochs=50),
        selection="last",
        epochs=300,
        early_stop_epochs=None,
        seed=1,
    )


def recipes() -> dict[str, Config]:
    rows = [mnist_row(contrast) for contrast in CONTRASTS]
    return {row.recipe: row for row in rows}
