"""The command does what it is told, or says what is wrong and what to do about it."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService, connected, running_service
from tests.contract.wire_engine import open_engine, open_request


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket's path is limited."""
    with TemporaryDirectory() as name:
        yield Path(name)


def assert_fails(told: str, *arguments: str, **environ: str) -> None:
    """The command ends with exit code 1 and one line for people."""
    answer = kvquarry(*arguments, **environ)
    assert answer.returncode == 1, answer
    assert answer.stdout == ""
    assert re.fullmatch(f"kvquarry: .*{re.escape(told)}.*\n", answer.stderr), answer.stderr


def serve(*flags: str) -> tuple[str, ...]:
    return ("serve", "--metrics-listen", "off", *flags)


def test_status_of_nobody_names_the_target(folder: Path) -> None:
    target = f"unix:{folder}/s"
    assert_fails(f"no kvquarry service answers at {target}", "status", "--target", target)
    assert_fails(f"no kvquarry service answers at {target}", "status", KVQUARRY_TARGET=target)


def test_status_of_something_else_says_so() -> None:
    with running_service("--health-listen", "127.0.0.1:0") as service:
        target = service.found(r"health on (\S+)")
        told = f"what answers at {target} is no kvquarry service"
        assert_fails(told, "status", "--target", target)


WITHOUT_EXTRA = """
import sys
sys.modules.update(dict.fromkeys(("grpc_health", "grpc_reflection", "prometheus_client")))
from kvquarry_server.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("version", 0, r"kvquarry \S+\n"),
        ("status", 1, "kvquarry: no kvquarry service answers at .*\n"),
        ("serve", 1, r"kvquarry: serve needs \w+,.* kvquarry\[server\], or '\.\[server\]' .*\n"),
    ],
)
def test_only_serving_needs_the_extra(folder: Path, command: str, code: int, told: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, command],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env=os.environ | {"KVQUARRY_TARGET": f"unix:{folder}/s"},
    )
    assert answer.returncode == code, answer.stderr
    assert re.fullmatch(told, answer.stdout + answer.stderr), answer


def test_a_reader_that_has_seen_enough_is_no_error(service: RunningService) -> None:
    command = [sys.executable, "-m", "kvquarry_server", "status", "--target", service.target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as status:
        assert status.stdout is not None
        assert status.stderr is not None
        status.stdout.close()
        assert status.stderr.read() == b""


def test_the_announcement_names_every_address(service: RunningService) -> None:
    pattern = r"kvquarry serving on unix:\S+ metrics on http://127\.0\.0\.1:\d+/metrics\n"
    assert re.fullmatch(pattern, service.announcement)


def test_only_owner_and_group_may_connect(service: RunningService) -> None:
    path = Path(service.target.removeprefix("unix:"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o770


def test_a_socket_in_use_is_not_taken_over(service: RunningService) -> None:
    told = f"another process listens on {service.target}"
    assert_fails(told, *serve("--listen", service.target))


def test_the_socket_of_a_killed_service_is_taken_over(folder: Path) -> None:
    flags = ("--listen", f"unix:{folder}/again")
    with running_service(*flags) as killed:
        killed.signal(signal.SIGKILL)
        killed.wait()
    assert (folder / "again").is_socket()
    with running_service(*flags), connected(f"unix:{folder}/again") as channel:
        assert open_engine(channel, open_request("engine")).opened.incarnation == 1


def test_a_path_that_cannot_be_listened_on_is_named(folder: Path) -> None:
    assert_fails("there is no folder", *serve("--listen", f"unix:{folder}/absent/s"))


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen", "--health-listen"])
def test_a_port_in_use_is_named(folder: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_fails(address, *serve("--listen", f"unix:{folder}/s", flag, address))


def test_plain_text_for_everybody_is_warned_of() -> None:
    with running_service("--listen", "0.0.0.0:0") as service:
        assert service.announcement
        assert "anyone who reaches 0.0.0.0:0 can open pools" in service.log
