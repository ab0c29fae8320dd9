"""A flag wins over its variable, a variable over the default, and nonsense is named."""

import argparse
from pathlib import Path

import pytest

from kvquarry_server.addresses import InvalidAddress, TcpAddress, UnixAddress, parse_address
from kvquarry_server.settings import (
    ServeSettings,
    StatusSettings,
    add_serve_flags,
    add_status_flags,
    serve_settings,
    status_settings,
)


def serve(*flags: str, **environ: str) -> ServeSettings:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser, environ)
    return serve_settings(parser.parse_args(flags))


def status(*flags: str, **environ: str) -> StatusSettings:
    parser = argparse.ArgumentParser()
    add_status_flags(parser, environ)
    return status_settings(parser.parse_args(flags))


def test_nothing_needs_to_be_set() -> None:
    assert serve() == ServeSettings(
        listen=(UnixAddress(Path("/run/kvquarry/kvquarry.sock")),),
        metrics_listen=TcpAddress("127.0.0.1", 9464),
        health_listen=None,
        lease_s=60,
        attach_s=900,
        keepalive_s=10,
        max_message_bytes=16 * 1024 * 1024,
        placement="affinity",
        eviction="lru",
        relocation="off",
        retention="engine",
        pin_cap=0.25,
        has_reflection=False,
        drain_s=10,
        log_level="info",
    )
    assert str(status().target) == "unix:/run/kvquarry/kvquarry.sock"


CASES = [
    ("listen", "127.0.0.1:1", "listen", (TcpAddress("127.0.0.1", 1),)),
    ("metrics-listen", "off", "metrics_listen", None),
    ("health-listen", "[::]:0", "health_listen", TcpAddress("[::]", 0)),
    ("lease-seconds", "0.5", "lease_s", 0.5),
    ("attach-seconds", "1", "attach_s", 1),
    ("keepalive-seconds", "2", "keepalive_s", 2),
    ("max-message-bytes", "65536", "max_message_bytes", 65536),
    ("placement", "first-fit", "placement", "first-fit"),
    ("eviction", "slab-aware", "eviction", "slab-aware"),
    ("relocation", "evacuate", "relocation", "evacuate"),
    ("retention", "every-4096", "retention", "every-4096"),
    ("pin-cap", "0.5", "pin_cap", 0.5),
    ("reflection", "on", "has_reflection", True),
    ("drain-seconds", "0", "drain_s", 0),
    ("log-level", "debug", "log_level", "debug"),
]


@pytest.mark.parametrize(("flag", "text", "name", "value"), CASES)
def test_every_setting_has_a_flag_and_a_variable(
    flag: str, text: str, name: str, value: object
) -> None:
    variable = "KVQUARRY_" + flag.upper().replace("-", "_")
    assert getattr(serve(f"--{flag}", text), name) == value
    assert getattr(serve(**{variable: text}), name) == value


def test_every_setting_is_among_the_cases() -> None:
    assert {name for _, _, name, _ in CASES} == set(ServeSettings.__dataclass_fields__)


def test_a_flag_wins_over_its_variable() -> None:
    both = serve("--lease-seconds", "1", KVQUARRY_LEASE_SECONDS="2")
    assert both.lease_s == 1
    listening = serve("--listen", "127.0.0.1:1", KVQUARRY_LISTEN="127.0.0.1:2")
    assert listening.listen == (TcpAddress("127.0.0.1", 1),)
    assert status("--target", "h:1", KVQUARRY_TARGET="h:2").target == TcpAddress("h", 1)


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert serve(KVQUARRY_LEASE_SECONDS="", KVQUARRY_LISTEN="") == serve()


def test_several_addresses_may_be_listened_on() -> None:
    expected = (UnixAddress(Path("/a")), TcpAddress("h", 1))
    assert serve("--listen", "unix:/a", "--listen", "h:1", "--listen", "h:1").listen == expected
    assert serve(KVQUARRY_LISTEN="unix:/a,h:1").listen == expected


@pytest.mark.parametrize(
    ("flag", "text", "told"),
    [
        ("--listen", "unix:relative", "whole path"),
        ("--listen", "/run/k.sock", "write unix:/run/k.sock"),
        ("--metrics-listen", "unix:/a", "host:port"),
        ("--lease-seconds", "0", "above 0, not '0'"),
        ("--lease-seconds", "-1", "above 0, not '-1'"),
        ("--lease-seconds", "nan", "number of seconds"),
        ("--attach-seconds", "soon", "number of seconds"),
        ("--drain-seconds", "-1", "0 or more"),
        ("--max-message-bytes", "10", "from 65536 to"),
        ("--placement", "best", "affinity, first-fit"),
        ("--pin-cap", "1.5", "from 0 to 1, not '1.5'"),
        ("--pin-cap", "nan", "from 0 to 1"),
        ("--reflection", "maybe", "on, off"),
        ("--log-level", "loud", "debug, info"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(
    flag: str, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        serve(f"{flag}={text}")
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert flag in message
    assert told in message


@pytest.mark.parametrize(
    ("variable", "text"),
    [("KVQUARRY_LEASE_SECONDS", "abc"), ("KVQUARRY_REFLECTION", "maybe")],
)
def test_nonsense_in_a_variable_names_the_variable(
    variable: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        serve(**{variable: text})
    assert f"{variable}: write" in capsys.readouterr().err


def test_a_list_of_addresses_in_a_variable_is_named_too() -> None:
    with pytest.raises(InvalidAddress, match="KVQUARRY_LISTEN: write unix:/a for a socket"):
        serve(KVQUARRY_LISTEN="h:1,/a")


@pytest.mark.parametrize(
    ("text", "told"),
    [("inproc:", "no service to ask"), ("h:0", "at port 0"), ("/a", "write unix:/a")],
)
def test_a_target_where_nobody_can_be_asked_is_refused(
    text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        status(KVQUARRY_TARGET=text)
    message = capsys.readouterr().err
    assert told in message
    assert "KVQUARRY_TARGET: " in message


@pytest.mark.parametrize("choice", ["{affinity,first-fit}", "{debug,info,warning,error}"])
def test_the_help_shows_what_may_be_chosen(choice: str) -> None:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser, {})
    assert choice in parser.format_help()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "h",
        "h:",
        "h:x",
        "h:70000",
        "a/b:1",
        "::1:80",
        "unix:",
        "unix:a",
        "unix:/a%41",
        "unix:/a:1",
    ],
)
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        parse_address(text)


@pytest.mark.parametrize("text", ["unix:/a/b.sock", "localhost:1", "[::1]:80", "10.0.0.1:0"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_address(text)) == text


def test_loopback_is_told_from_the_rest() -> None:
    loopback = ("localhost:1", "127.9.9.9:1", "[::1]:1")
    everywhere = ("0.0.0.0:1", "[::]:1", "10.0.0.1:1")
    told = [
        address.is_loopback
        for address in map(parse_address, loopback + everywhere)
        if isinstance(address, TcpAddress)
    ]
    assert told == [True] * 3 + [False] * 3
