"""A search on real digits: ASHA, diverging and failing trials, interruption and continuation, the files it leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from pipelines.__main__ import main
from pipelines.config import ConfigurationError
from pipelines.files import read_lines
from pipelines.plan import Plan
from pipelines.search import start_search

pytestmark = pytest.mark.usefixtures("ray_session")

SMALL = [
    "vmf/mnist", "--epochs", "4",
    "--set", "data.name=digits", "data.order.per_epoch=4", "data.order.images_per_class=4",
    "--grid", "optimizer.learning_rate=0.001,0.1,1e30",
]  # fmt: skip


def tune(*arguments: str) -> int:
    return main(["tune", *arguments])


@pytest.fixture(scope="module")
def finished(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sweep = tmp_path_factory.mktemp("search") / "sweep"
    assert tune(*SMALL, "--root", str(data_root), "--sweep", str(sweep)) == 0
    return sweep


def test_every_trial_is_accounted_for(finished: Path) -> None:
    frame = pd.read_parquet(finished / "trials.parquet")
    assert len(frame) == 15
    assert set(frame["status"]) <= {"complete", "stopped by ASHA", "diverged"}
    diverged = frame[frame["optimizer.learning_rate"] == 1e30]
    standard = diverged[diverged["recipe"] == "vmf/mnist-standard"]
    assert list(standard["status"]) == ["diverged"]
    complete = frame[frame["status"] == "complete"]
    assert (complete["epochs"] == 4).all()
    assert (frame[frame["status"] == "stopped by ASHA"]["epochs"] < 4).all()


def test_each_objective_has_its_own_bracket_and_a_best_trial(finished: Path) -> None:
    plan = Plan.read(finished)
    best = json.loads((finished / "best.json").read_text())
    assert set(best["recipes"]) == set(plan.recipes)
    first_rung = [decision for decision in read_lines(finished / "decisions.jsonl") if decision["epoch"] == 1]
    for member in plan.recipes:
        assert next(d["cutoff"] for d in first_rung if d["recipe"] == member) is None


def test_the_same_command_again_runs_nothing(
    finished: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "decisions.jsonl").read_bytes()
    assert tune(*SMALL, "--root", str(data_root), "--sweep", str(finished)) == 0
    out = capsys.readouterr().out
    assert "trials to run" not in out
    assert "published" in out
    assert (finished / "decisions.jsonl").read_bytes() == before


def test_another_plan_in_the_same_folder_is_refused(finished: Path, data_root: Path) -> None:
    assert tune(*SMALL, "--seed", "7", "--root", str(data_root), "--sweep", str(finished)) == 2


def test_report_of_a_search_is_one_page_without_outside_links(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(finished)]) == 0
    page = Path(capsys.readouterr().out.strip().splitlines()[-1]).read_text()
    assert 'src="http' not in page and 'href="http' not in page


def test_runs_and_searches_keep_out_of_each_others_folders(
    finished: Path, data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = finished / "trials" / "mnist-cosine-000"
    data = ["--data.name", "digits", "--root", str(data_root)]
    assert main(["train", "vmf/mnist-cosine", *data, "--run", str(finished)]) == 2
    assert "holds a search" in capsys.readouterr().err
    assert not (finished / "config.json").exists()
    assert tune(*SMALL, "--root", str(data_root), "--sweep", str(trial)) == 2
    assert "holds a run" in capsys.readouterr().err
    assert not (trial / "plan.json").exists()
    assert main(["evaluate", str(finished)]) == 2
    assert "is a search: evaluate one of its trials" in capsys.readouterr().err


def test_plan_only_prints(data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(*SMALL, "--plan", "--root", str(data_root), "--sweep", str(tmp_path / "sweep")) == 0
    assert "15 trials of up to 4 epochs, compared at epochs [1, 2, 4]" in capsys.readouterr().out
    assert not (tmp_path / "sweep").exists()


def test_a_failing_trial_is_named_and_tried_again(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "sweep"
    arguments = [*SMALL[:-1], "optimizer.learning_rate=0.1,0.2", "--root", str(data_root), "--sweep", str(sweep)]
    # A file in the place of a trial's folder makes that trial fail.
    (sweep / "trials").mkdir(parents=True)
    (sweep / "trials" / "mnist-cosine-001").write_text("in the way")
    assert tune(*arguments) == 1
    told = capsys.readouterr()
    assert "mnist-cosine-001  failed" in told.out
    assert "1 trials failed or were interrupted" in told.err
    assert list(pd.read_parquet(sweep / "trials.parquet").query("trial == 'mnist-cosine-001'")["epochs"]) == [0]
    (sweep / "trials" / "mnist-cosine-001").unlink()
    assert tune("--resume", str(sweep)) == 0
    row = pd.read_parquet(sweep / "trials.parquet").query("trial == 'mnist-cosine-001'")
    assert row["epochs"].item() > 0


def test_a_search_that_was_killed_continues(data_root: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    command = [sys.executable, "-m", "pipelines", "tune", *SMALL, "--root", str(data_root), "--sweep", str(sweep)]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[ 3/15"):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(1)
    over = {decision["trial"] for decision in read_lines(sweep / "decisions.jsonl") if decision["stopped"]}
    stamps = {trial: (sweep / "trials" / trial / "metrics.jsonl").stat().st_mtime_ns for trial in over}
    assert tune("--resume", str(sweep)) == 0
    frame = pd.read_parquet(sweep / "trials.parquet")
    assert set(frame["status"]) <= {"complete", "stopped by ASHA", "diverged"}
    assert stamps == {trial: (sweep / "trials" / trial / "metrics.jsonl").stat().st_mtime_ns for trial in over}


def test_a_trial_that_lacks_only_its_summary_is_over_at_once(finished: Path, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    shutil.copytree(finished, sweep)
    frame = pd.read_parquet(sweep / "trials.parquet")
    trial = frame[frame["status"] == "complete"]["trial"].iloc[0]
    (sweep / "trials" / trial / "summary.json").unlink()
    assert tune("--resume", str(sweep)) == 0
    assert (sweep / "trials" / trial / "summary.json").exists()
    pd.testing.assert_frame_equal(pd.read_parquet(sweep / "trials.parquet"), frame)


def test_a_folder_that_cannot_be_written_is_named(data_root: Path, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        start_search(Plan.read(finished), tmp_path / "file" / "sweep")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--grid", "optimizer.learning_rat=0.1"],
            "optimizer.learning_rat is no field of any recipe; nearest: optimizer",
        ),
        (["--grid", "epochs=1,2"], "the grid's epochs cannot vary"),
        (["--grid", "optimizer.learning_rate=-1"], "mnist-standard-000: optimizer.learning_rate is -1.0"),
        (["--set", "seed=1"], "use --seed"),
        (["--set", "workers=2"], "cannot change workers"),
        (["--set", "data.name=digits,mnist"], "--set data.name has 2 values"),
        (["--grace-epochs", "9"], "grace_epochs is 9, allowed is at most epochs = 4"),
        (["--resume", "somewhere"], "--resume takes no other options"),
    ],
)
def test_wrong_plans_are_refused(
    options: list[str], message: str, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = SMALL if "--grid" not in options and "--set" not in options else ["vmf/mnist", "--epochs", "4"]
    digits = [] if "--set" in options else ["--set", "data.name=digits"] if "--grid" in options else []
    assert tune(*base, *digits, "--root", str(data_root), *options) == 2
    assert message in capsys.readouterr().err


def test_a_search_of_a_method_without_a_classifier_ends_with_its_own_measure(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--epochs", "1", "--root", str(data_root), "--grid", "optimizer.learning_rate=0.01,0.02", "--set"]
    digits = ["data.name=digits", "data.order.batch_size=64"]
    moco = [*digits, "backbone.width=8", "method.queue_size=64", "monitor.neighbours=10"]
    assert tune("dsf/cifar10-moco-dsf", "--sweep", str(tmp_path / "moco"), *common, *moco) == 0
    assert (tmp_path / "moco" / "best.json").exists()
