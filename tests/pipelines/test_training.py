"""The loop: resuming after a kill at any moment, early stop, divergence, selection, and refusal of a second writer."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipelines.config import ConfigurationError, change, to_dict
from pipelines.files import hold
from pipelines.judging import PROTOCOLS, evaluate_run
from pipelines.runs import RunFolder
from pipelines.training import train

from .small import small

KILLS = int(os.environ.get("HYPERSPHERICAL_KILLS", "3"))
"""Set to 20 to repeat the long form of the test."""
WALL_TIME = ("train_seconds", "measure_seconds", "images_per_second")


def without_times(path: Path) -> list[dict]:
    return [{k: v for k, v in record.items() if k not in WALL_TIME} for record in RunFolder(path).records()]


@pytest.mark.parametrize("name", ["vmf/mnist-vmf", "amc/mnist-amc", "dsf/cifar10-moco-dsf"])
def test_a_run_of_each_family_writes_its_folder_and_learns(name: str, data_root: Path, tmp_path: Path) -> None:
    config = small(name, data_root, epochs=3)
    records: list = []
    summary = train(config, tmp_path / "run", records.append)
    assert summary["status"] == "complete"
    assert [record["epoch"] for record in records] == [1, 2, 3]
    assert RunFolder(tmp_path / "run").records() == records
    assert records[-1]["loss"] < records[0]["loss"]
    assert summary["accuracy"] > 0.2
    assert (
        load_file(tmp_path / "run" / "model.safetensors").keys()
        == RunFolder(tmp_path / "run").read_state(torch.device("cpu"))["method"].keys()
    )
    assert RunFolder(tmp_path / "run").config() == config


def test_killed_at_random_moments_and_continued_is_the_same_bit_for_bit(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, epochs=30)
    train(config, tmp_path / "whole")
    draw = random.Random(os.urandom(8))
    killed = tmp_path / "killed"
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(config)))
    command = [sys.executable, "-m", "pipelines", "train", "--config", str(file), "--run", str(killed)]
    kills = 0
    while kills < KILLS:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        # The first epoch's line tells that the start is over; from there on any moment may be hit.
        for line in process.stdout:
            if "epoch" in line and "loss" in line:
                break
        time.sleep(draw.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        kills += 1
        if RunFolder(killed).summary() is not None:
            break
    summary = train(config, killed)
    assert summary["status"] == "complete"
    assert without_times(killed) == without_times(tmp_path / "whole")
    whole, continued = (load_file(path / "model.safetensors") for path in (tmp_path / "whole", killed))
    assert all(torch.equal(whole[key], continued[key]) for key in whole)
    last, again = (RunFolder(path).read_state(torch.device("cpu"))["method"] for path in (tmp_path / "whole", killed))
    assert all(torch.equal(last[key], again[key]) for key in last)


def test_a_finished_run_is_not_trained_again(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-cosine", data_root)
    first = train(config, tmp_path)
    stamp = (tmp_path / "model.safetensors").stat().st_mtime_ns
    assert train(config, tmp_path) == first
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == stamp


def test_another_configuration_and_a_second_writer_are_refused(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-cosine", data_root)
    folder = RunFolder(tmp_path, config)
    with pytest.raises(ConfigurationError, match="another configuration"):
        train(dataclasses.replace(config, seed=7), tmp_path)
    code = (
        "import sys, time, pathlib; from pipelines.files import hold\n"
        "with hold(pathlib.Path(sys.argv[1]), ''): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(folder.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigurationError, match="another process is writing"):
            train(config, tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    with hold(tmp_path, "free again after the holder's death"):
        pass


def test_a_loss_that_is_not_finite_stops_the_run_and_says_where(data_root: Path, tmp_path: Path) -> None:
    config = change(small("vmf/mnist-standard", data_root, epochs=5), {"optimizer.learning_rate": 1e30})
    records: list = []
    summary = train(config, tmp_path, records.append)
    assert summary["status"].startswith("diverged: the loss is ")
    assert "in epoch 1, step " in summary["status"]
    assert "the losses before it: 2." in summary["status"]
    assert records == [{"epoch": 1, "accuracy": 0.0, "diverged": True, "train_seconds": 0.0}]
    assert json.loads((tmp_path / "summary.json").read_text())["accuracy"] is None


def test_early_stop_and_selection_of_the_best_epoch(data_root: Path, tmp_path: Path) -> None:
    config = change(small("vmf/mnist-standard", data_root, epochs=50), {"optimizer.learning_rate": 1e-12})
    config = dataclasses.replace(config, early_stop_epochs=2)
    summary = train(config, tmp_path)
    accuracies = [record["accuracy"] for record in RunFolder(tmp_path).records()]
    best = accuracies.index(max(accuracies)) + 1
    assert summary["status"] == "stopped early"
    assert summary["best_epoch"] == summary["selected_epoch"] == best
    assert summary["epochs"] == best + 2


def test_evaluation_of_a_run_is_repeatable_and_kept(data_root: Path, tmp_path: Path) -> None:
    train(small("vmf/mnist-vmf", data_root, epochs=3), tmp_path)
    first = evaluate_run(tmp_path, "test", list(PROTOCOLS.values()))
    again = evaluate_run(tmp_path, "test", list(PROTOCOLS.values()))
    assert first == again
    kept = json.loads((tmp_path / "evaluations.json").read_text())
    assert [metric["value"] for metric in kept] == [metric.value for metric in first]
    assert {metric.name for metric in first} >= {"accuracy", "calibration_error", "calibration_error_rms"}
    assert (tmp_path / "test_outputs.npz").exists()


def test_measuring_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not the folder of a trained run"):
        evaluate_run(tmp_path, "test", list(PROTOCOLS.values()))
