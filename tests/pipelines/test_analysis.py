import json
import math
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from pyarrow import parquet

from pipelines.analysis import (
    best_table,
    best_trials,
    published_rank,
    search_efficiency,
    ties,
    trials_frame,
    write_best,
    write_trials,
)
from pipelines.analysis.tables import Table, cell, percent
from pipelines.config import ConfigurationError

from . import sweeps
from .sweeps import ARCFACE, BEST, COMPLETE, DIVERGED, FAILED, INTERRUPTED, STOPPED, TIE, VMF, WAITING


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return sweeps.write_sweep(tmp_path / "sweep")


@pytest.fixture
def frame(sweep: Path) -> pandas.DataFrame:
    return trials_frame(sweep)


def test_every_trial_has_its_status(frame: pandas.DataFrame) -> None:
    assert dict(zip(frame["trial"], frame["status"], strict=True)) == {
        STOPPED: "stopped by ASHA",
        BEST: "complete",
        TIE: "complete",
        DIVERGED: "diverged",
        COMPLETE: "complete",
        FAILED: "failed",
        INTERRUPTED: "interrupted",
        WAITING: "waiting",
    }


def test_a_trial_that_asha_stops_after_its_last_epoch_is_complete(sweep: Path) -> None:
    (sweep / "trials" / TIE / "summary.json").unlink()
    assert trials_frame(sweep).set_index("trial").loc[TIE, "status"] == "complete"


def test_rows_hold_curves_times_and_configuration(frame: pandas.DataFrame) -> None:
    row = frame.set_index("trial").loc[COMPLETE]
    assert row["accuracy"] == 0.8 and row["best_epoch"] == 3 and row["epochs"] == 4
    assert row["accuracy_curve"] == [0.5, 0.6, 0.8, 0.7]
    assert row["loss"] == 0.25 and row["train_seconds"] == 8 and row["measure_seconds"] == 2
    assert row["standard_error"] == pytest.approx(math.sqrt(0.8 * 0.2 / 10_000))
    assert row["optimizer.learning_rate"] == 0.05 and row["method.objective.margin"] == 0.5
    assert math.isnan(row["method.objective.ratio"])
    assert frame[frame["published"]]["trial"].tolist() == [STOPPED]


def test_best_trials_are_finished_and_most_accurate(frame: pandas.DataFrame) -> None:
    assert best_trials(frame) == {VMF: BEST, ARCFACE: COMPLETE}


def test_equally_accurate_trials_are_ordered_by_the_epoch_that_reached_it(sweep: Path) -> None:
    file = sweep / "trials" / TIE / "metrics.jsonl"
    file.write_text(file.read_text().replace("0.89,", "0.9,"))
    assert best_trials(trials_frame(sweep))[VMF] == TIE


def test_the_published_row_is_compared_at_the_last_common_epoch(frame: pandas.DataFrame) -> None:
    # It reached 0.84 by epoch 2, where two others had 0.85 and 0.86; the diverged one had 0.83 and ranks last.
    assert published_rank(frame, VMF) == (3, 4)
    assert published_rank(frame, ARCFACE) is None


def test_a_diverged_published_row_ranks_last(frame: pandas.DataFrame) -> None:
    frame["published"] = frame["trial"] == DIVERGED
    assert published_rank(frame, VMF) == (4, 4)


def test_ties_are_within_two_standard_errors(frame: pandas.DataFrame) -> None:
    # 0.90 - 2 sqrt(0.9 * 0.1 / 10000) = 0.894
    assert ties(frame, BEST) == [TIE]
    assert ties(frame, COMPLETE) == []


def test_without_the_number_of_images_there_are_no_ties(sweep: Path) -> None:
    plan = json.loads((sweep / "plan.json").read_text())
    sweeps.write(sweep / "plan.json", {name: value for name, value in plan.items() if name != "validation_images"})
    assert ties(trials_frame(sweep), BEST) == []
    assert "90.00  " in best_table(sweep).text()


def test_the_parquet_file_has_one_row_per_trial_and_fixed_types(sweep: Path, frame: pandas.DataFrame) -> None:
    table = parquet.read_table(write_trials(sweep))
    types = {field.name: str(field.type) for field in table.schema}
    assert types["accuracy_curve"] == types["loss_curve"] == "list<element: double>"
    assert types["epochs"] == "int64" and types["optimizer.nesterov"] == types["published"] == "bool"
    assert types["method.objective.margin_free_epochs"] == types["optimizer.learning_rate"] == "double"
    assert table["trial"].to_pylist() == frame["trial"].tolist()
    assert table["accuracy_curve"].to_pylist() == frame["accuracy_curve"].tolist()
    assert table["accuracy"].to_pylist()[5:] == [None, 0.4, None]


def test_the_table_has_the_papers_form(sweep: Path) -> None:
    sweeps.write_test_results(sweep / "trials" / BEST)
    lines = best_table(sweep).text().splitlines()
    assert " ".join(lines[2].split()) == "objective row LR TLR MOM NMOM WD m m=0 Epochs c λ Init τ"
    assert lines[4].split() == ["VMF", "ours", "0.05", "0.001", "0.99", "True", "0.0", *"–––", "0.4", "0.0"]
    assert lines[5].split() == ["published", "0.05", "0.001", "0.99", "False", "0.0", *"–––", "0.4", "0.0"]
    assert lines[7].split() == ["published", "0.01", "0.001", "0.99", "True", "0.0", "0.5", "20", *"––", "0.0"]
    result = "90.00 ± 0.30 80.00 ± 2.83 4 2 1 3 of 4 84.00 (stopped at 2)"
    assert lines[11].split() == ["VMF", BEST, *result.split()]
    assert lines[12].split()[-4:] == ["–", "not", "in", "grid"]
    assert "supplement lists hyperparameters only" in lines[-1]
    assert max(map(len, lines[:13])) <= 130


def test_a_search_that_has_only_begun_has_a_table_too(sweep: Path) -> None:
    for summary in sweep.glob("trials/*/summary.json"):
        summary.unlink()
    for metrics in sweep.glob("trials/*/metrics.jsonl"):
        metrics.unlink()
    (sweep / "decisions.jsonl").unlink()
    assert "not in grid" in best_table(sweep).text()
    assert write_trials(sweep).exists()
    assert json.loads(write_best(sweep).read_text())["recipes"] == {}


def test_best_json_says_what_was_found(sweep: Path) -> None:
    sweeps.write_test_results(sweep / "trials" / BEST)
    best = json.loads(write_best(sweep).read_text())["recipes"][VMF]
    assert best["trial"] == BEST and best["ties"] == [TIE] and best["trials"] == 4
    assert best["changes"] == {"optimizer.learning_rate": 0.05, "optimizer.nesterov": True}
    assert best["validation_accuracy"] == 0.9 and best["standard_error"] == pytest.approx(0.003)
    assert best["published_rank"] == {"rank": 3, "of": 4}
    assert best["test"]["accuracy"]["value"] == 0.8
    assert best["test"]["accuracy"]["standard_error"] == pytest.approx(math.sqrt(0.16 / 200))


def test_efficiency_is_work_over_slot_seconds(sweep: Path) -> None:
    assert search_efficiency(sweep) == 0.75
    (sweep / "timing.json").unlink()
    assert math.isnan(search_efficiency(sweep))


@pytest.mark.parametrize(("file", "text"), [("plan.json", "{"), ("decisions.jsonl", "{\n"), ("plan.json", None)])
def test_damaged_folders_are_named(sweep: Path, file: str, text: str | None) -> None:
    (sweep / file).unlink() if text is None else (sweep / file).write_text(text)
    with pytest.raises(ConfigurationError, match=file):
        trials_frame(sweep)


def test_cells_are_written_as_the_papers_write_them() -> None:
    cells = [cell(value) for value in (1e-5, 5e-4, 0.001, 0.05, 1.0, 0.0, 20, True, None, math.nan)]
    assert cells == ["1×10^-5", "5×10^-4", "0.001", "0.05", "1.0", "0.0", "20", "True", "–", "–"]
    assert [percent(0.9081, 0.0029), percent(0.9081), percent(None)] == ["90.81 ± 0.29", "90.81", "–"]


def test_columns_are_aligned() -> None:
    assert Table(["name", "x"], [["a", "10"], ["long name", "1"]]).text().splitlines() == [
        "name        x",
        "─────────  ──",
        "a          10",
        "long name   1",
    ]


def test_reading_folders_needs_neither_pytorch_nor_ray() -> None:
    heavy = "{'torch', 'ray', 'pandas', 'matplotlib'}"
    code = f"import sys, pipelines.report, pipelines.analysis; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
