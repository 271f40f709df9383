"""The command line: one line per fault, the right exit code, and the whole path on real digits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from pipelines.__main__ import main
from pipelines.config import to_dict

from .small import small


def run(*arguments: str) -> int:
    return main(list(arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "there is no command 'trian'; nearest: train"),
        (["train", "vmf/fashion-mnist-vfm"], "no recipe 'vmf/fashion-mnist-vfm'; nearest: vmf/fashion-mnist-vmf"),
        (["train"], "train needs a recipe or --config FILE"),
        (["train", "vmf/mnist-vmf", "--epochz", "3"], "there is no option --epochz; nearest: --epochs"),
        (["train", "vmf/mnist-vmf", "--method.objective.margin", "1"], "there is no option --method.objective.margin"),
        (["train", "vmf/mnist-vmf", "--epochs", "many"], "--epochs: invalid literal for int() with base 10: 'many'"),
        (["train", "vmf/mnist-vmf", "--device", "tpu"], "invalid choice 'tpu' for argument '--device'"),
        (["train", "vmf/mnist-vmf", "--data.name", "fashon_mnist"], "'fashon_mnist'; nearest: fashion_mnist"),
        (["train", "vmf/mnist-vmf", "--data.train-views", "plane", "1"], "preset 'plane'; nearest: plain"),
        (["train", "vmf/mnist"], "vmf/mnist is a study: search it with `tune`"),
        (["tune", "vmf/mnist", "--data.name", "digits"], "fields of a recipe are --set FIELD=VALUE"),
        (["tune", "vmf/mnist", "--cpus-per-trial", "1000"], "cpus_per_trial is 1000, allowed is at most"),
        (["tune", "vmf/mnist", "--plan", "--grid", "learning_rate=1"], "nearest: optimizer.learning_rate"),
        (["verify", "digitz"], "there is no data set 'digitz'; nearest: digits"),
        (["train", "--config", "absent.json"], "absent.json cannot be read as a configuration"),
        (["tune", "vmf/fashon-mnist"], "there is no study or recipe 'vmf/fashon-mnist'; nearest: vmf/fashion-mnist"),
        (["tune", "amc/mnist-amc"], "tune needs --grid"),
        (["tune", "--resume", "absent"], "absent is not the folder of a search"),
        (["prepare", "fashion-mist"], "there is no data set 'fashion-mist'; nearest: fashion_mnist"),
        (["prepare"], "prepare needs the name of a data set"),
        (["evaluate", "absent"], "absent is not the folder of a trained run"),
        (["evaluate", "absent", "--protocols", "retreival"], "there is no protocol 'retreival'"),
        (["report", "absent"], "absent"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("hyperspherical: ")
    assert message in error
    assert error.count("\n") == 1


def test_all_wrong_values_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--epochs", "0", "--optimizer.learning-rate", "-1", "--method.objective.margin", "9"]
    assert run("train", "vmf/mnist-arcface", *arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["method.objective.margin", "optimizer.learning_rate", "epochs"]


def test_data_that_is_not_prepared_is_named_with_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--root", str(tmp_path), "--run", str(tmp_path / "run"), "--epochs", "1"]
    assert run("train", "vmf/mnist-vmf", *arguments) == 1
    error = capsys.readouterr().err
    assert "hyperspherical prepare mnist --root" in error
    assert error.count("\n") == 1


def test_lists_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recipes") == 0
    assert "vmf/fashion-mnist-vmf" in capsys.readouterr().out
    assert run("prepare", "--list") == 0
    listed = capsys.readouterr().out
    assert "fashion_mnist" in listed and "edge <= 256" in listed and "CC BY 4.0" in listed
    assert run("--help") == 0
    with pytest.raises(SystemExit) as exit:
        run("train", "vmf/mnist-vmf", "--help")
    assert exit.value.code == 0
    assert "--method.objective.ratio" in capsys.readouterr().out


def test_a_folder_of_ones_own_is_prepared_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(40):
        path = tmp_path / "photos" / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"nonsense" if number == 7 else b"")
        if number != 7:
            Image.new("RGB", (20 + number, 30), (5 * number, 0, 0)).save(path)
    own = ["prepare", "my-photos", "--source", str(tmp_path / "photos"), "--root", str(tmp_path), "--workers", "1"]
    assert run(*own) == 1
    assert "7.png: it is not an image" in capsys.readouterr().err
    assert run(*own, "--skip-unreadable", "1") == 0
    assert "left out" in capsys.readouterr().out
    assert run("verify", "my-photos", "--root", str(tmp_path)) == 0
    assert run(*own, "--severities", "1") == 1
    assert "my_photos is no corrupted data set" in capsys.readouterr().err


def test_the_short_form_of_a_run_says_what_it_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("train", "vmf/mnist-arcface", "--epochs", "4", "--root", str(tmp_path), "--run", str(tmp_path / "run")) == 1
    )
    assert "method.objective.margin_free_epochs is 1 here and 20 in the paper" in capsys.readouterr().out


def test_train_evaluate_report_verify(data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(small("vmf/mnist-vmf", data_root))))
    folder = tmp_path / "run"
    assert run("train", "--config", str(file), "--run", str(folder)) == 0
    assert "epoch 2/2" in capsys.readouterr().out
    # The folder's own configuration runs again, with the same outcome.
    assert run("train", "--config", str(folder / "config.json"), "--run", str(tmp_path / "again")) == 0
    assert (folder / "model.safetensors").read_bytes()[-1000:] == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()[-1000:]
    capsys.readouterr()
    assert run("evaluate", str(folder), "--protocols", "classification", "neighbours") == 0
    assert "360 images" in capsys.readouterr().out
    assert run("report", str(folder)) == 0
    page = Path(capsys.readouterr().out.strip().splitlines()[-1])
    assert page.read_text().startswith("<!doctype html>")
    assert run("verify", "digits", "--root", str(data_root)) == 0
    assert "every byte as prepared" in capsys.readouterr().out


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "pipelines", "recipes"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "vmf/fashion-mnist" in done.stdout
