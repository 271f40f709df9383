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
    if name.startswith("dsf"):
        # Its loss rises while real keys fill the queue. Chance picks the right one of 65 keys in 1.5 %.
        assert max(record["pretext_accuracy"] for record in records) > 0.05
    else:
        assert records[-1]["loss"] < records[0]["loss"]
    assert summary["accuracy"] > 0.2
    assert (
        load_file(tmp_path / "run" / "model.safetensors").keys()
        == RunFolder(tmp_path / "run").read_state()["method"].keys()
    )
    assert RunFolder(tmp_path / "run").config() == config


@pytest.mark.parametrize("name", ["vmf/mnist-vmf", "amc/mnist-amc"])
def test_killed_at_random_moments_and_continued_is_the_same_bit_for_bit(
    name: str, data_root: Path, tmp_path: Path
) -> None:
    # AMC's average, dropout and Adam are slow to repeat, so one kill has to do; VMF has them all.
    epochs, kills = (60 + 10 * KILLS, KILLS) if name == "vmf/mnist-vmf" else (3, 1)
    config = small(name, data_root, epochs=epochs, early_stop_epochs=None)
    train(config, tmp_path / "whole")
    killed = tmp_path / "killed"
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(config)))
    command = [sys.executable, "-m", "pipelines", "train", "--config", str(file), "--run", str(killed)]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        # The first epoch's line tells that the start is over; from there on any moment may be hit.
        next(line for line in process.stdout if "loss" in line)
        time.sleep(random.SystemRandom().uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        assert RunFolder(killed).summary() is None
    assert 0 < len(RunFolder(killed).records()) < epochs
    summary = train(config, killed)
    assert summary["status"] == "complete"
    assert without_times(killed) == without_times(tmp_path / "whole")
    for file in ("model.safetensors", "state.pt"):
        whole, continued = (weights_in(path / file) for path in (tmp_path / "whole", killed))
        assert all(torch.equal(whole[key], continued[key]) for key in whole)
    assert not list(killed.glob(".*.[0-9]*"))


def weights_in(file: Path) -> dict[str, torch.Tensor]:
    return load_file(file) if file.suffix == ".safetensors" else torch.load(file, weights_only=True)["method"]


@pytest.mark.parametrize("killed_before", ["write_model", "write_history"])
def test_killed_between_two_files_of_an_epoch(killed_before: str, data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-vmf", data_root, epochs=4)
    config = dataclasses.replace(config, selection="last")
    train(config, tmp_path / "whole")
    code = (
        "import os, signal, sys, pathlib; from pipelines import runs, config, training\n"
        "calls = []\n"
        f"def kill(*_): calls.append(1); len(calls) == 2 and os.kill(os.getpid(), signal.SIGKILL); "
        f"return original(*_)\n"
        f"original = runs.RunFolder.{killed_before}; runs.RunFolder.{killed_before} = kill\n"
        "training.train(config.load(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2]))\n"
    )
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(config)))
    done = subprocess.run([sys.executable, "-c", code, str(file), str(tmp_path / "killed")])
    assert done.returncode == -signal.SIGKILL
    assert len(torch.load(tmp_path / "killed" / "state.pt", weights_only=True)["history"]) == 2
    train(config, tmp_path / "killed")
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "whole")
    whole, continued = (weights_in(tmp_path / run / "model.safetensors") for run in ("whole", "killed"))
    assert all(torch.equal(whole[key], continued[key]) for key in whole)


def test_weights_that_blow_up_in_the_last_step_are_a_divergence_too(data_root: Path, tmp_path: Path) -> None:
    config = small("vmf/mnist-standard", data_root, epochs=5)
    config = change(config, {"optimizer.learning_rate": 1e38, "data.order.per_epoch": 1})
    summary = train(config, tmp_path)
    assert summary["status"].startswith("diverged: ")
    assert "not finite" in summary["status"] or "in epoch 2" in summary["status"]


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
