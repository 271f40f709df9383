"""Several workers: Ray Train on real digits, and two gloo processes that see what one process sees."""

import dataclasses
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from pipelines.config import ConfigurationError, Shuffled
from pipelines.launch import launch
from pipelines.runs import RunFolder

from .small import small


@pytest.mark.usefixtures("ray_session")
def test_two_ray_train_workers_learn_and_resume(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, workers=2, epochs=3)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, order=Shuffled(batch_size=32)))
    summary = launch(config, tmp_path / "run")
    assert summary["status"] == "complete"
    assert summary["hardware"]["workers"] == 2
    records = RunFolder(tmp_path / "run").records()
    assert [record["epoch"] for record in records] == [1, 2, 3]
    assert records[-1]["loss"] < records[0]["loss"]
    # An interrupted group starts again from the folder's state: take away what came after it.
    (tmp_path / "run" / "summary.json").unlink()
    again = launch(config, tmp_path / "run")
    assert (again["accuracy"], again["best_epoch"]) == (summary["accuracy"], summary["best_epoch"])


@pytest.mark.usefixtures("ray_session")
def test_the_group_starts_again_after_a_worker_was_killed(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, workers=2, epochs=12)
    config = dataclasses.replace(config, early_stop_epochs=None)
    killed: list[int] = []

    def kill_a_worker() -> None:
        while len(RunFolder(tmp_path / "run").records()) < 2:
            time.sleep(0.05)
        workers = [p for p in psutil.process_iter(["cmdline"]) if "RayTrainWorker" in " ".join(p.info["cmdline"] or [])]
        own = [worker for worker in workers if any(parent.pid == os.getpid() for parent in worker.parents())]
        own[-1].kill()
        killed.append(own[-1].pid)

    killer = threading.Thread(target=kill_a_worker, daemon=True)
    killer.start()
    summary = launch(config, tmp_path / "run")
    killer.join()
    assert killed
    assert summary["status"] == "complete"
    assert [record["epoch"] for record in RunFolder(tmp_path / "run").records()] == list(range(1, 13))


@pytest.mark.usefixtures("ray_session")
def test_more_workers_than_devices_are_refused(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, workers=1000)
    with pytest.raises(ConfigurationError, match="workers is 1000, allowed here is at most"):
        launch(config, tmp_path)
