"""From arguments to dataclasses: tyro does the work, errors become one line each."""

import contextlib
import io
import re
from typing import Any, TypeVar

import tyro

from .config import ConfigurationError, nearest

A = TypeVar("A")


class Failure(Exception):
    """A command that was used rightly and failed: one sentence for the user, exit code 1."""


def parse(cls: type[A], arguments: list[str], command: str, default: A | None = None) -> A:
    """An instance of the dataclass `cls` from command-line arguments; `default` holds what is not given.

    Raises `ConfigurationError` with one sentence for every unknown option, and for a value of the wrong type.
    """
    # The fields of a configuration take True and False as values; a command's own switches are flags.
    switches = tyro.conf.FlagCreatePairsOff if default is None else tyro.conf.FlagConversionOff
    settings: dict[str, Any] = {"prog": f"hyperspherical {command}", "config": (tyro.conf.AvoidSubcommands, switches)}
    if default is not None:
        settings["default"] = default
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            parsed, unknown = tyro.cli(cls, args=arguments, return_unknown_args=True, **settings)
    except SystemExit as exit:
        if not exit.code:
            raise
        raise ConfigurationError([first_sentence(stderr.getvalue())]) from None
    if unknown:
        raise ConfigurationError(unknown_options(unknown, options_of(cls, settings)))
    return parsed


def unknown_options(unknown: list[str], known: list[str]) -> list[str]:
    """A sentence for every option that does not exist, or for arguments that belong to none."""
    options = [argument.split("=")[0] for argument in unknown if argument.startswith("--")]
    if not options:
        return [f"unexpected argument {unknown[0]!r}"]
    return [f"there is no option {option}{nearest(option.replace('_', '-'), known)}" for option in options]


def options_of(cls: type[Any], settings: dict[str, Any]) -> list[str]:
    """All options that the command line of `cls` accepts, read off its own help text."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.suppress(SystemExit):
        tyro.cli(cls, args=["--help"], **settings)
    return re.findall(r"(?<![\w-])--[\w.-]+", stdout.getvalue())


def first_sentence(box: str) -> str:
    """The message inside one of tyro's framed errors, on one line.

    A frame is a title, the message, and hints, each closed by a ruled line; in a terminal the title is in the line.
    """
    sections: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip("│ ")
        if text.strip("─-╭╮╰╯") == "" or text.startswith("╭"):
            sections.append([])
        else:
            sections[-1].append(text)
    filled = [" ".join(section) for section in sections if section]
    message = filled[0] if "╭" in box or len(filled) == 1 else filled[1]
    return message.removeprefix("Error parsing ").rstrip(".")
