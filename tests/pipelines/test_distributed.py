"""Two gloo processes train as one does: the same batches, gradients, statistics and metrics."""

import dataclasses
import os
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as multiprocessing
from safetensors.torch import load_file

from pipelines.config import Config, from_dict, to_dict
from pipelines.runs import RunFolder
from pipelines.training import train

from .small import small


def train_as_rank(rank: int, world: int, port: int, values: dict, folder: str) -> None:
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true",
    }  # fmt: skip
    train(from_dict(Config, values), Path(folder))
    torch.distributed.destroy_process_group()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_workers_train_as_one(data_root: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(small("vmf/mnist-hyperbolic", data_root), synchronize_batch_norm=True)
    train(config, tmp_path / "one")
    arguments = (2, free_port(), to_dict(dataclasses.replace(config, workers=2)), str(tmp_path / "two"))
    multiprocessing.spawn(train_as_rank, arguments, nprocs=2)
    one, two = (RunFolder(tmp_path / run).records() for run in ("one", "two"))
    for ours, theirs in zip(one, two, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["accuracy"] == theirs["accuracy"]
        assert ours["calibration_error"] == pytest.approx(theirs["calibration_error"], rel=1e-3)
    weights = [load_file(tmp_path / run / "model.safetensors") for run in ("one", "two")]
    for key in weights[0]:
        torch.testing.assert_close(weights[0][key], weights[1][key], rtol=1e-3, atol=1e-5)
