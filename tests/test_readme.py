"""The README says what is true: its commands parse, its Python runs, its picture and files exist."""

import re
import shlex
from pathlib import Path

import pytest

from pipelines import commands
from pipelines.command_line import parse
from pipelines.recipes import recipe

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
COMMAND_LINES = re.findall(r"^hyperspherical (.+?)(?:\s{3,}.*)?$", README, flags=re.MULTILINE)


def test_the_readme_has_commands_to_check() -> None:
    assert len(COMMAND_LINES) >= 10


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_parse(line: str) -> None:
    name, *arguments = shlex.split(line)
    assert name in commands.COMMANDS
    if name == "train":
        config = commands.TrainArguments(config=recipe(arguments[0]))
        parse(commands.TrainArguments, arguments[1:], "train RECIPE", config)
    else:
        parse(commands.ARGUMENTS[name], arguments, name)


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_python_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "torch.Size([5, 32, 128]) torch.Size([32])\n"


def test_make_targets_and_linked_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)$", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for path in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / path).exists()
