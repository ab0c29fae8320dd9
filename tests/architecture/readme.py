"""README.md as tests read it: its commands and its tables."""

import re
import shlex
from collections.abc import Iterator

from tests.architecture.repository import ROOT

README = ROOT / "README.md"


def commands() -> list[list[str]]:
    """The words of every command in a block of code, in order, without assignments before it."""
    return [words for line in _command_lines() if (words := _without_assignments(line))]


def commands_of(*program: str) -> list[list[str]]:
    """The arguments of every command that starts with these words."""
    return [words[len(program) :] for words in commands() if words[: len(program)] == [*program]]


def table(heading: str) -> list[dict[str, str]]:
    """The rows of every table whose first column has this heading, without backquotes."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", README.read_text(), re.M):
        names, _, *rows = (_cells(line) for line in block.splitlines())
        if names[0] == heading:
            found += [dict(zip(names, row, strict=True)) for row in rows]
    return found


def _command_lines() -> Iterator[str]:
    for block in re.findall(r"^```\n(.*?)^```$", README.read_text(), re.M | re.S):
        yield from block.replace("\\\n", " ").splitlines()


def _without_assignments(line: str) -> list[str]:
    words = shlex.split(line)
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    return words


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")]
