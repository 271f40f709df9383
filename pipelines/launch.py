"""Where a run runs: in this process, or in several workers under Ray Train."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .command_line import Failure
from .config import Config, ConfigurationError, from_dict, to_dict
from .ray_cluster import connect, joined_cluster
from .runs import Record, RunFolder

MAX_RESTARTS = 2
"""How often the group of workers is started again after one of them died; each start resumes from the run folder."""


def launch(config: Config, path: Path, tell: Callable[[str], None] = print) -> Record:
    """Trains the run of `config` and returns its summary, one line per epoch on the way.

    One worker runs in this process, several under Ray Train.
    """

    def report(record: Record) -> None:
        tell(epoch_line(config, record))

    return train_here(config, path, report) if config.workers == 1 else launch_workers(config, path, report)


def train_here(config: Config, path: Path, report: Callable[[Record], None]) -> Record:
    from .training import train

    return train(config, path, report)


def launch_workers(config: Config, path: Path, report: Callable[[Record], None]) -> Record:
    """The same loop in `config.workers` processes: NCCL with a GPU each, gloo on CPUs.

    The run folder is the only checkpoint, so nodes must share the storage it lies on. Raises `ConfigurationError` if
    the cluster has too few devices, and `Failure` with the last line of a worker's error.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    folder = RunFolder(path.resolve(), config)
    # Ray moves its workers into folders of their own.
    config = dataclasses.replace(config, root=str(Path(config.root).resolve()))
    check_before_workers(config, folder)
    # The controller polls the workers at this interval, and a worker's report waits for the poll.
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    print(f"starting Ray and {config.workers} workers, which takes about half a minute", flush=True)
    connect()
    on_gpu = wants_gpu(config)
    require_devices(config.workers, "GPU" if on_gpu else "CPU")
    trainer = TorchTrainer(
        _train_as_worker,
        train_loop_config={"path": str(folder.path), "config": to_dict(config)},
        torch_config=TorchConfig(backend="nccl" if on_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=config.workers, use_gpu=on_gpu),
        run_config=RunConfig(
            name="ray", storage_path=str(folder.path), failure_config=FailureConfig(max_failures=MAX_RESTARTS)
        ),
    )
    with following(folder, report):
        try:
            trainer.fit()
        except TrainingFailedError as error:
            raise Failure(f"the workers failed: {str(error).strip().splitlines()[-1]}") from error
    summary = folder.summary()
    assert summary is not None, "Ray Train ended without an error, yet the run has no summary"
    return summary


def _train_as_worker(arguments: dict[str, Any]) -> None:
    import ray.train

    from .training import train

    def report(record: Record) -> None:
        ray.train.report({"epoch": record["epoch"], "accuracy": record["accuracy"]})

    train(from_dict(Config, arguments["config"]), Path(arguments["path"]), report)


def check_before_workers(config: Config, folder: RunFolder) -> None:
    """Meets missing data and a folder in use here, in one sentence, rather than in every worker."""
    check_data_prepared(config)
    with folder.lock():
        pass


def check_data_prepared(config: Config) -> None:
    """Raises `BetonError`, with the command that helps, if the data of a run are missing or damaged."""
    from data_prep.prepare import open_split

    for split in (config.data.train_split, config.data.validation_split):
        open_split(Path(config.root), config.data.name, split)


def wants_gpu(config: Config) -> bool:
    """Whether workers get a GPU each: as configured, else if the cluster has any."""
    import ray

    return config.device == "cuda" or (config.device == "auto" and ray.cluster_resources().get("GPU", 0) > 0)


@contextlib.contextmanager
def following(folder: RunFolder, report: Callable[[Record], None]) -> Iterator[None]:
    """Reports the epochs that other processes add to the folder, while the body runs."""
    over, told = threading.Event(), len(folder.records())

    def follow() -> None:
        nonlocal told
        last_look = False
        while not last_look:
            last_look = over.wait(0.5)
            for record in folder.records()[told:]:
                report(record)
                told += 1

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def epoch_line(config: Config, record: Record) -> str:
    """One epoch in one line."""
    if record.get("diverged"):
        return f"{config.recipe}  epoch {record['epoch']}: the loss is not finite, the run stops"
    return (
        f"{config.recipe}  epoch {record['epoch']}/{config.epochs}  loss {record['loss']:.4f}  "
        f"{config.data.validation_split} accuracy {100 * record['accuracy']:.2f} %  "
        f"lr {record['learning_rate']:.3g}  {record['images_per_second']:.0f} images/s"
    )


def require_devices(workers: int, kind: str) -> None:
    """Raises `ConfigurationError` if this machine has too few devices. A cluster that was joined may still grow."""
    import ray

    available = int(ray.cluster_resources().get(kind, 0))
    if workers > available and not joined_cluster():
        raise ConfigurationError([f"workers is {workers}, allowed here is at most {available}, one {kind} each"])
