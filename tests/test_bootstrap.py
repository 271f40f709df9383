"""The set-up tells what is missing in one sentence where it cannot install it itself."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "packaging" / "bootstrap.py"


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_missing_on_a_machine_that_runs_these_tests(bootstrap: ModuleType) -> None:
    assert bootstrap.missing_packages() == []


def test_without_root_the_missing_libraries_are_one_command(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "missing_packages", lambda: ["g++", "libturbojpeg0-dev"])
    monkeypatch.setattr(bootstrap, "can_install", lambda: False)
    with pytest.raises(SystemExit) as stop:
        bootstrap.install_system_libraries()
    assert "apt-get install -y --no-install-recommends g++ libturbojpeg0-dev" in str(stop.value)
    assert "\n" not in str(stop.value)


def test_a_path_with_a_space_is_refused(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", Path("/some where"))
    with pytest.raises(SystemExit, match="cannot be built below a path with a space"):
        bootstrap.main([])


def test_packages_are_installed_once_and_again_when_a_pin_changes(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    pin = tmp_path / "constraints.txt"
    pin.write_text("torch==2.12.0")
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "venv")
    monkeypatch.setattr(bootstrap, "PINS", [pin])
    monkeypatch.setattr(bootstrap, "run", lambda command, environment=None: commands.append(command))
    bootstrap.install_python_packages()
    once = len(commands)
    bootstrap.install_python_packages()
    assert len(commands) == once == 3
    pin.write_text("torch==2.13.0")
    bootstrap.install_python_packages()
    assert len(commands) == 6
