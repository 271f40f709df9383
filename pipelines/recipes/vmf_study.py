"""The supervised study of the von Mises-Fisher loss: the rows of its supplement's Tables 5 and 6.

    hyperspherical train vmf/fashion-mnist-vmf        one row
    hyperspherical tune vmf/fashion-mnist             the grid over all rows of a table

The paper trains up to 1000 epochs of 250 episodes with early stopping on one GPU. Its accuracies stand in the main
text, not in the supplement that these recipes were written from, so no expected figure is given.
"""

from typing import Any

from pipelines.config import (
    ArcFace,
    Config,
    Cosine,
    Data,
    DigitsCnn,
    Episodes,
    Hyperbolic,
    Objective,
    Plateau,
    Sgd,
    Standard,
    Supervised,
    VonMisesFisher,
)

from .study import Study

COLUMNS = {
    "LR": "optimizer.learning_rate",
    "TLR": "optimizer.temperature_learning_rate",
    "MOM": "optimizer.momentum",
    "NMOM": "optimizer.nesterov",
    "WD": "optimizer.weight_decay",
    "m": "method.objective.margin",
    "m=0 Epochs": "method.objective.margin_free_epochs",
    "c": "method.objective.curvature",
    "λ": "method.objective.ratio",
    "Init τ": "method.objective.log_inverse_temperature",
}
"""The columns of the supplement's tables and the fields that hold them."""

# Table 5 and Table 6: LR, MOM, NMOM of each row. WD is 0 in all of them; TLR is 0.001, m 0.5 with 20 epochs of m = 0,
# c 1e-5, lambda 0.4 and the first tau 0 wherever a row has them.
TABLES: dict[str, dict[str, tuple[float, float, bool]]] = {
    "mnist": {
        "standard": (0.1, 0.9, False),
        "hyperbolic": (0.05, 0.99, True),
        "cosine": (0.5, 0.9, True),
        "arcface": (0.05, 0.9, False),
        "vmf": (1.0, 0.99, True),
    },
    "fashion_mnist": {
        "standard": (0.01, 0.99, False),
        "hyperbolic": (0.1, 0.9, True),
        "cosine": (0.5, 0.9, True),
        "arcface": (0.01, 0.99, True),
        "vmf": (0.05, 0.99, False),
    },
}
OBJECTIVES: dict[str, Objective] = {
    "standard": Standard(),
    "hyperbolic": Hyperbolic(curvature=1e-5),
    "cosine": Cosine(log_inverse_temperature=0.0),
    "arcface": ArcFace(margin=0.5, margin_free_epochs=20, log_inverse_temperature=0.0),
    "vmf": VonMisesFisher(ratio=0.4, log_inverse_temperature=0.0),
}
TABLE_TITLES = {"mnist": "Table 5, MNIST", "fashion_mnist": "Table 6, Fashion-MNIST"}
# The union of the winning values of both tables: the supplement says "a grid search", not over what.
GRID: dict[str, list[Any]] = {
    "optimizer.learning_rate": [0.01, 0.05, 0.1, 0.5, 1.0],
    "optimizer.momentum": [0.9, 0.99],
    "optimizer.nesterov": [False, True],
}


def digits_row(data: str, objective: str) -> Config:
    """One row of Table 5 (MNIST) or Table 6 (Fashion-MNIST)."""
    learning_rate, momentum, nesterov = TABLES[data][objective]
    learns_temperature = objective in ("cosine", "arcface", "vmf")
    return Config(
        recipe=name_of(data, objective),
        data=Data(name=data, order=Episodes(classes=10, images_per_class=13, per_epoch=250)),
        backbone=DigitsCnn(embedding_size=3),
        method=Supervised(objective=OBJECTIVES[objective]),
        optimizer=Sgd(
            learning_rate=learning_rate,
            temperature_learning_rate=0.001 if learns_temperature else None,
            momentum=momentum,
            nesterov=nesterov,
        ),
        schedule=Plateau(factor=0.5, patience=15),
        epochs=1000,
        early_stop_epochs=35,
        seed=1234,
    )


def name_of(data: str, objective: str) -> str:
    return f"vmf/{data.replace('_', '-')}-{objective}"


def recipes() -> dict[str, Config]:
    rows = [digits_row(data, objective) for data, table in TABLES.items() for objective in table]
    return {row.recipe: row for row in rows}


def studies() -> dict[str, Study]:
    """The grid search behind each table."""
    return {
        f"vmf/{data.replace('_', '-')}": Study(
            title=f"Hyperparameters of the vMF supplement's {TABLE_TITLES[data]}",
            recipes=tuple(name_of(data, objective) for objective in table),
            grid=GRID,
            columns=COLUMNS,
        )
        for data, table in TABLES.items()
    }
