import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from pipelines.config import ConfigurationError
from pipelines.report import write_report
from pipelines.report.outputs import calibration, calibration_errors, class_names, read_outputs
from pipelines.report.page import missing, table
from pipelines.report.style import colours_of

from . import sweeps
from .sweeps import BEST, COMPLETE, INTERRUPTED

SECTIONS = [
    *("Best rows beside the published ones", "Learning curves", "Accuracy against each hyperparameter"),
    *("What ASHA stopped, and when", "Embeddings on the sphere", "Reliability", "Time", "How to reproduce this"),
]


class Page(HTMLParser):
    """Headings, links and unclosed elements of a document."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.alternatives: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]
        self.alternatives += [value or "" for name, value in attributes if name == "alt"]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return sweeps.write_sweep(tmp_path / "sweep")


def test_a_search_has_all_sections_in_one_file(sweep: Path) -> None:
    for trial in (BEST, COMPLETE):
        sweeps.write_test_results(sweep / "trials" / trial)
    file = write_report([sweep])
    page = Page(html := file.read_text())
    assert file == sweep / "report.html" and page.open == []
    assert page.headings == SECTIONS
    assert len(page.links) == 5 and all(link.startswith("data:image/") for link in page.links)
    assert len(page.alternatives) == 5 and all(page.alternatives)
    assert "VMF has the highest test accuracy, 80.00 ± 2.83" in html and "ARCFACE is within two standard errors" in html
    assert "3 of 4" in html and "10<sup>" not in html and "75&nbsp;% of it" in html
    assert "hyperspherical tune vmf/fashion-mnist \\\n    --epochs 4" in html
    assert not list(sweep.glob(".report*"))


def test_text_from_files_is_escaped(sweep: Path) -> None:
    html = write_report([sweep]).read_text()
    assert "&lt;one&gt; epoch &amp; no more" in html
    assert "&lt;script&gt;out of memory" in html and "<script" not in html


def test_a_page_that_was_written_twice_is_the_same(sweep: Path) -> None:
    assert write_report([sweep]).read_bytes() == write_report([sweep]).read_bytes()


def test_missing_evaluations_are_said_with_the_command(sweep: Path) -> None:
    html = write_report([sweep]).read_text()
    assert Page(html).headings == SECTIONS
    assert html.count("No best trial has been evaluated") == 2
    assert f"hyperspherical tune --resume {sweep}" in html


def test_a_search_that_has_not_begun_has_a_report(sweep: Path) -> None:
    import shutil

    shutil.rmtree(sweep / "trials")
    (sweep / "timing.json").unlink()
    (sweep / "decisions.jsonl").unlink()
    html = write_report([sweep]).read_text()
    assert "No trial has finished an epoch" in html and "8 waiting" in html and "No session of the search" in html


def test_a_search_of_one_recipe_without_variation(sweep: Path) -> None:
    plan = json.loads((sweep / "plan.json").read_text())
    plan |= {"grid": {"optimizer.learning_rate": [0.05]}, "recipes": plan["recipes"][:1], "trials": plan["trials"][:2]}
    sweeps.write(sweep / "plan.json", plan)
    assert "The grid varies nothing" in write_report([sweep]).read_text()


def test_a_run_has_its_own_sections(sweep: Path) -> None:
    run = sweep / "trials" / BEST
    sweeps.write_test_results(run)
    html = write_report([run], sweep / "pages" / "run.html").read_text()
    page = Page(html)
    assert page.headings == [
        *("Curves", "Evaluations", "Reliability", "Embeddings on the sphere", "Hyperparameters"),
        "How to reproduce this",
    ]
    assert "Complete after 4 epochs: 90.00&nbsp;% accuracy on fashion_mnist validation at epoch 4." in html
    assert "0.8000 ± 0.0283" in html and "optimizer.learning_rate" in html


def test_a_run_that_has_just_begun_says_what_is_missing(sweep: Path) -> None:
    run = sweep / "trials" / INTERRUPTED
    (run / "metrics.jsonl").unlink()
    html = write_report([run]).read_text()
    assert "No epoch has been recorded yet." in html and "not over" in html and "hyperspherical evaluate" in html


def test_several_folders_share_a_page(sweep: Path) -> None:
    html = write_report([sweep, sweep / "trials" / COMPLETE]).read_text()
    assert html.count("<article>") == 2 and html.count("<!doctype") == 1


def test_other_folders_are_refused_by_name(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        write_report([sweep, tmp_path, tmp_path / "nowhere"])
    assert len(refusal.value.faults) == 2
    assert re.search(r"nowhere is neither a run nor a search", str(refusal.value))


def test_calibration_bins_hold_equally_many_images(sweep: Path) -> None:
    run = sweep / "trials" / BEST
    sweeps.write_test_results(run)
    outputs = read_outputs(run)
    assert outputs is not None and outputs.on_the_sphere
    confidence, accuracy, count = calibration(outputs)
    assert set(count) <= {13, 14} and count.sum() == 200
    assert np.allclose(confidence, 0.82)
    assert (accuracy * count).sum() == pytest.approx(160)
    mean, root = calibration_errors(outputs)
    assert 0.02 <= mean <= root


def test_names_of_classes_come_from_the_catalogue() -> None:
    assert class_names({"name": "fashion_mnist", "labels": "label"})[0] == "T-shirt/top"
    assert class_names({"name": "unknown", "labels": "label"}) == ()


def test_objectives_keep_their_colours() -> None:
    assert colours_of(["VMF", "COSINE"])["VMF"] == colours_of(["VMF"])["VMF"]
    many = colours_of([f"objective {number}" for number in range(20)])
    assert len(many) == 20 and len(set(many.values())) == 8


def test_powers_and_commands_are_set_in_html() -> None:
    from pipelines.analysis import Table

    assert "<td>1×10<sup>−5</sup></td>" in table(Table(["name", "c"], [["a", "1×10^-5"]]))
    assert missing("Nothing.", "run <x>") == '<p class="missing">Nothing. Run <code>run &lt;x&gt;</code></p>'
