"""What KVQUARRY_TARGET may say."""

import pytest

from kvquarry_client.errors import InvalidTarget
from kvquarry_client.target import parse_target


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/kvquarry.sock", "unix:/run/kvquarry.sock"),
        ("unix:///run/kvquarry.sock", "unix:/run/kvquarry.sock"),
        ("localhost:9000", "localhost:9000"),
        ("[::1]:9000", "[::1]:9000"),
        ("inproc:", None),
    ],
)
def test_a_target_names_a_socket_an_address_or_this_process(text: str, address: str | None) -> None:
    target = parse_target(text)
    assert target.grpc_address == address
    assert target.is_inproc == (address is None)
    assert str(target) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "unix:relative/path",
        "localhost",
        "host:x",
        "http://h:1",
        "unix:/" + "x" * 107,
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidTarget, match=r"unix:/path|107 bytes"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/run/k.sock", "write unix:/run/k.sock"),
        ("unix:/run/a%20b.sock", "misreads"),
        ("host:0", "at port 0: write one from 1 to 65535"),
        ("host:70000", "at port 70000"),
    ],
)
def test_what_is_nearly_a_target_is_told_what_it_lacks(text: str, told: str) -> None:
    with pytest.raises(InvalidTarget, match=told):
        parse_target(text)
