"""One self-contained HTML page about runs and searches: no server, no outside links, figures inside the file."""

from pathlib import Path

from pipelines.analysis import is_run, is_sweep
from pipelines.config import ConfigurationError
from pipelines.files import replace_file

from .page import page
from .run import run_report
from .sweep import sweep_report

__all__ = ["write_report"]


def write_report(paths: list[Path], output: Path | None = None) -> Path:
    """Writes the page about the folders of runs and searches; by default report.html in the first of them.

    Raises `ConfigurationError` for every path that is neither, and for damaged or unwritable files.
    """
    faults = [
        f"{path} is neither a run nor a search: it has no config.json and no plan.json"
        for path in paths
        if not is_run(path) and not is_sweep(path)
    ]
    if faults or not paths:
        raise ConfigurationError(faults or ["a report needs at least one folder of a run or a search"])
    articles = [sweep_report(path) if is_sweep(path) else run_report(path) for path in paths]
    file = output or paths[0] / "report.html"
    html = page(articles)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return replace_file(file, lambda temporary: temporary.write_text(html, encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError([f"the report {file} cannot be written: {error.strerror}"]) from None
