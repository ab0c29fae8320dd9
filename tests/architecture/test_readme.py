"""What the README tells to type can be typed, and its settings are those there are."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping

from kvquarry_server.cli import command_parser
from kvquarry_server.settings import add_serve_flags, add_status_flags
from kvquarry_vllm.settings import read_settings
from tests.architecture.readme import commands, commands_of, table
from tests.architecture.repository import ROOT


class ReadVariables(Mapping[str, str]):
    """An environment that takes down what is read."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return {"KVQUARRY_TARGET": "inproc:"}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def flags_of(add_flags: Callable[[argparse.ArgumentParser, Mapping[str, str]], None]) -> set[str]:
    """Every flag as the README's table has it: `flag variable default`."""

    def one_line_each(prog: str) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(prog, max_help_position=80, width=1000)

    parser = argparse.ArgumentParser(formatter_class=one_line_each)
    add_flags(parser, {})
    shown = re.findall(
        r"^  (--[a-z-]+).*?(?:\[(KVQUARRY_\w+)[^:\]]*: ?(.*)\])?$", parser.format_help(), re.M
    )
    return {" ".join(one).strip() for one in shown}


def test_the_table_of_flags_is_what_the_parsers_say() -> None:
    expected = flags_of(add_serve_flags) | flags_of(add_status_flags)
    rows = table("flag")
    assert {" ".join((r["flag"], r["variable"], r["default"])).strip() for r in rows} == expected
    assert len(rows) == len(expected) > 10


def test_the_table_of_the_engines_variables_is_what_is_read() -> None:
    environ = ReadVariables()
    assert read_settings(environ) is not None
    told = ", ".join(row["variable"] for row in table("variable"))
    assert set(re.findall(r"\w+", told)) == environ.names


def test_the_commands_of_kvquarry_are_understood() -> None:
    found = commands_of("kvquarry") + commands_of(".venv/bin/kvquarry")
    assert {words[0] for words in found} >= {"serve", "status"}
    for words in found:
        command_parser().parse_args(words)


def test_the_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    told = re.findall(r"`make ([a-z -]+)`", (ROOT / "README.md").read_text())
    told += [" ".join(words) for words in commands_of("make")]
    assert {"demo", "test", "venv"} <= set(told)
    for target in (target for targets in told for target in targets.split()):
        assert re.search(f"^{target}:", makefile, re.M), target


def test_what_is_typed_is_known() -> None:
    """A command of another program needs a look at whether it still does what is told."""
    known = {"curl", "export", "kvquarry", "make", "pip", "python", "sudo", "vllm"}
    programs = {words[0].rpartition("/")[2] for words in commands()}
    assert {one for one in programs if one.isalpha()} - known == set()
