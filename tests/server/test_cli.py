"""Misuse is told from failure, and the version from both."""

import re

import pytest

from kvquarry_server.cli import main


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["serve", "--fast"], ["status", "--target", "inproc:"]]
)
def test_misuse_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("usage: kvquarry")


def test_an_unknown_flag_shows_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["serve", "--lisen", "unix:/a"])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("usage: kvquarry serve")
    assert "unrecognized arguments: --lisen unix:/a" in message


def test_a_variable_that_is_no_address_is_misuse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVQUARRY_LISTEN", "nowhere")
    assert main(["serve"]) == 2
    assert "write host:port" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert re.fullmatch(r"kvquarry \d\S*\n", capsys.readouterr().out)
