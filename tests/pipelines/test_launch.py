"""Several workers under Ray Train on real digits: a killed one, missing data, too few devices."""

import dataclasses
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from data_prep.beton import BetonError
from pipelines.config import ConfigurationError
from pipelines.judging import evaluate_run
from pipelines.launch import launch
from pipelines.runs import RunFolder

from .small import small


@pytest.mark.usefixtures("ray_session")
def test_two_ray_train_workers_start_again_after_one_was_killed(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A relative root, as users give it, though Ray moves its workers elsewhere.
    monkeypatch.chdir(data_root)
    config = small("vmf/mnist-standard", Path("."), workers=2, epochs=12)
    config = dataclasses.replace(config, early_stop_epochs=None, selection="last")
    lines: list[str] = []
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
    summary = launch(config, tmp_path / "run", lines.append)
    killer.join()
    assert killed
    assert summary["status"] == "complete"
    assert summary["hardware"]["workers"] == 2
    records = RunFolder(tmp_path / "run").records()
    assert [record["epoch"] for record in records] == list(range(1, 13))
    assert records[-1]["loss"] < records[0]["loss"]
    assert len(lines) == 12
    # What two workers recorded is what the saved weights give in one process.
    measured = {metric.name: metric.value for metric in evaluate_run(tmp_path / "run", "validation")}
    assert measured["negative_log_likelihood"] == pytest.approx(records[-1]["negative_log_likelihood"], rel=1e-5)


@pytest.mark.usefixtures("ray_session")
def test_missing_data_is_one_sentence_before_any_worker_starts(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-standard", tmp_path / "nowhere", workers=2)
    with pytest.raises(BetonError, match="hyperspherical prepare digits"):
        launch(config, tmp_path / "run")


@pytest.mark.usefixtures("ray_session")
def test_more_workers_than_devices_are_refused(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, workers=1000)
    with pytest.raises(ConfigurationError, match="workers is 1000, allowed here is at most"):
        launch(config, tmp_path)
