"""The service decides where blocks lie: the same messages, another policy, other blocks."""

import os
import tomllib
from pathlib import Path

import pytest

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.policies import ENTRY_POINT_GROUP
from tests.contract.installed_package import note_installed
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import connected, running_service
from tests.contract.wire_engine import ATTENTION, admit, ready_engine, take


def block_after_a_hole(placement: str) -> tuple[int, list[int], list[int]]:
    """Where the second request grows once the first has left a hole, and what both had."""
    with (
        running_service("--placement", placement) as service,
        connected(service.target) as channel,
    ):
        engine, stream = ready_engine(channel, "engine")
        per_slab = engine.opened.plan.size_classes[0].blocks_per_slab
        first = stream.exchange(admit(1, 4 * per_slab * 3)).answers[0].admission.grant
        second = stream.exchange(admit(2, 4)).answers[0].admission.grant
        ones, twos = (list(grant.blocks[ATTENTION].blocks) for grant in (first, second))
        drop = pool_pb2.Operation(
            drop=pool_pb2.Drop(handles=[1], groups=[ATTENTION], block_counts=[1], blocks=[ones[0]])
        )
        grow = pool_pb2.Operation(grow=pool_pb2.Grow(handle=2, block_counts=[1, 0]))
        result = stream.exchange(take(1, ATTENTION, len(ones)), drop, grow)
        (block,) = result.answers[0].grant.blocks[ATTENTION].blocks
        return block, ones, twos


def test_two_policies_give_one_client_different_blocks() -> None:
    near, *before = block_after_a_hole("affinity")
    lowest, *same_before = block_after_a_hole("first-fit")
    assert before == same_before
    (hole, *_), (own, *_) = before
    assert lowest == hole
    assert near == own + 1


EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/best-fit"


@pytest.fixture
def installed_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of a policy as pip would leave it: its module, and what it offers beside it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    note_installed(tmp_path, project["name"], project["entry-points"])
    path = [str(EXAMPLE), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


@pytest.mark.usefixtures("installed_example")
def test_a_service_goes_by_an_installed_package_s_policy() -> None:
    """The slab with the hole is fuller than the request's own."""
    block, (hole, *_), _ = block_after_a_hole("best-fit")
    assert block == hole


def test_a_service_without_the_package_names_the_policies_there_are() -> None:
    answer = kvquarry("serve", "--listen", "127.0.0.1:0", "--placement", "best-fit")
    assert answer.returncode == 2
    assert "affinity, first-fit" in answer.stderr


@pytest.mark.usefixtures("installed_example")
@pytest.mark.parametrize("command", ["serve", "simulate"])
def test_help_lists_an_installed_package_s_policy(command: str) -> None:
    answer = kvquarry(command, "--help")
    assert answer.returncode == 0
    assert "best-fit" in answer.stdout


@pytest.fixture
def broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose module is not there."""
    entries = {"retention.gone": "no_such_module:Gone", "retetion.y": "no_such_module:Y"}
    note_installed(tmp_path, "kvq-bad", {ENTRY_POINT_GROUP: entries})
    path = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


@pytest.mark.usefixtures("broken_package")
@pytest.mark.parametrize("arguments", [("version",), ("--help",), ("serve", "--help")])
def test_a_broken_package_stops_no_command_that_does_without_it(arguments: tuple[str, ...]) -> None:
    assert kvquarry(*arguments).returncode == 0


@pytest.mark.usefixtures("broken_package")
def test_a_service_that_is_to_go_by_a_broken_package_says_which_and_does_not_start() -> None:
    answer = kvquarry("serve", "--listen", "127.0.0.1:0", "--retention", "gone")
    assert answer.returncode == 2
    line = (
        "kvquarry: package kvq-bad offers retention.gone, which cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'; fix or uninstall it"
    )
    assert answer.stderr.splitlines() == [line]
