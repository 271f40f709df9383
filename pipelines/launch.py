"""Where a run runs: in this process, or in several workers under Ray Train."""

import os
from collections.abc import Callable
from pathlib import Path

from .config import Config, ConfigurationError
from .ray_cluster import connect
from .runs import Record, RunFolder

MAX_RESTARTS = 2
"""How often the group of workers is started again after one of them died; each start resumes from the run folder."""


def launch(config: Config, path: Path, tell: Callable[[str], None] = print) -> Record:
    """Trains the run of `config` and returns its summary, one line per epoch on the way.

    One worker runs in this process, several under Ray Train.
    """
    if config.workers == 1:
        from .training import train

        return train(config, path, lambda record: tell(epoch_line(config, record)))
    return launch_workers(config, path)


def launch_workers(config: Config, path: Path) -> Record:
    """The same loop in `config.workers` processes: NCCL with a GPU each, gloo on CPUs.

    The run folder is the only checkpoint, so nodes must share the storage it lies on. Raises `ConfigurationError` if
    the cluster has too few devices.
    """
    import torch
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    folder = RunFolder(path.resolve(), config)
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    # The controller polls the workers at this interval, and a worker's report waits for the poll.
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    connect()
    _require_devices(config.workers, "GPU" if on_gpu else "CPU")
    TorchTrainer(
        _train_as_worker,
        train_loop_config={"path": str(folder.path)},
        torch_config=TorchConfig(backend="nccl" if on_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=config.workers, use_gpu=on_gpu),
        run_config=RunConfig(
            name="ray", storage_path=str(folder.path), failure_config=FailureConfig(max_failures=MAX_RESTARTS)
        ),
    ).fit()
    summary = folder.summary()
    assert summary is not None, "Ray Train ended without an error, yet the run has no summary"
    return summary


def _train_as_worker(arguments: dict[str, str]) -> None:
    import ray.train

    from .training import train

    folder = RunFolder(Path(arguments["path"]))
    config = folder.config()
    is_first = ray.train.get_context().get_world_rank() == 0

    def report(record: Record) -> None:
        if is_first:
            print(epoch_line(config, record), flush=True)
        ray.train.report({"epoch": record["epoch"], "accuracy": record["accuracy"]})

    train(config, folder.path, report)


def epoch_line(config: Config, record: Record) -> str:
    """One epoch in one line."""
    if record.get("diverged"):
        return f"{config.recipe}  epoch {record['epoch']}: the loss is not finite, the run stops"
    return (
        f"{config.recipe}  epoch {record['epoch']}/{config.epochs}  loss {record['loss']:.4f}  "
        f"{config.data.validation_split} accuracy {100 * record['accuracy']:.2f} %  "
        f"lr {record['learning_rate']:.3g}  {record['images_per_second']:.0f} images/s"
    )


def _require_devices(workers: int, kind: str) -> None:
    import ray

    available = int(ray.cluster_resources().get(kind, 0))
    if workers > available:
        raise ConfigurationError([f"workers is {workers}, allowed here is at most {available}, one {kind} each"])
