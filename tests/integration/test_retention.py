"""A pool's retention is chosen at either side, runs in the engine, and has to be known to both."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvquarry_client import engine
from kvquarry_client.engine import OpenedPool
from kvquarry_client.errors import PlanMismatch, ServiceError
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.plan import make_plan
from kvquarry_core.policies import ENTRY_POINT_GROUP, NO_CHOICE_BUT_STAY, PolicyNames
from tests.contract.installed_package import note_installed
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService, running_service
from tests.integration.opening import pool_of

SOURCE = """
class Powers:
    def kept(self, lengths, landmarks):
        return [length for length in lengths if length & (length - 1) == 0]
"""


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with running_service("--retention", "every-64") as service:
        yield service


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A folder with a package that offers the retention ``powers``."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "retains_powers.py").write_text(SOURCE)
    entries = {ENTRY_POINT_GROUP: {"retention.powers": "retains_powers:Powers"}}
    note_installed(folder, "retains-powers", entries)
    return str(folder)


def opened(target: str, retention: str = "") -> OpenedPool:
    policies = NO_CHOICE_BUT_STAY.or_else(PolicyNames("", "", "", retention))
    return pool_of(target, policies=policies)


def pools_of(service: RunningService) -> list[Any]:
    shown = kvquarry("status", "--json", "--target", service.target)
    pools: list[Any] = json.loads(shown.stdout)["pools"]
    return pools


def installed_at_the_service(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    path = [package, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


def test_an_engine_that_does_not_choose_hears_the_services_choice(service: RunningService) -> None:
    names = opened(service.target).policies
    assert names == PolicyNames("affinity", "lru", "off", "every-64")


def test_an_engines_choice_wins_and_is_shown(service: RunningService) -> None:
    assert opened(service.target, "last").policies.retention == "last"
    (pool,) = pools_of(service)
    assert pool["policies"]["retention"] == "last"


def test_in_process_the_choice_is_the_engines_alone() -> None:
    assert opened("inproc:").policies.retention == "engine"
    assert opened("inproc:", "every-4096").policies.retention == "every-4096"


@pytest.mark.parametrize("target", ["inproc:", "unix:/nowhere/at/all"])
def test_a_name_that_the_engine_does_not_know_is_refused_before_anybody_is_asked(
    target: str,
) -> None:
    with pytest.raises(UsageError, match="there are engine, dense, boundaries, last") as caught:
        opened(target, "powers")
    assert caught.value.reason is Reason.UNKNOWN_POLICY


def test_a_name_that_the_service_does_not_know_is_refused_with_those_it_does(
    service: RunningService, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package)
    with pytest.raises(ServiceError) as caught:
        opened(service.target, "powers")
    assert caught.value.reason == "UNKNOWN_POLICY"
    assert caught.value.message == (
        f"the service at {service.target} offers no retention 'powers' (KVQUARRY_RETENTION); "
        "install its package there, too, or choose one of engine, dense, boundaries, last, every-N"
    )


def test_a_policy_that_the_service_cannot_load_is_refused_by_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {ENTRY_POINT_GROUP: {"eviction.gone": "no_such_module:Gone"}}
    note_installed(tmp_path, "kvq-bad", entries)
    installed_at_the_service(monkeypatch, str(tmp_path))
    with running_service() as service:
        match = f"the service at {service.target} refuses the pool: package kvq-bad offers eviction"
        policies = NO_CHOICE_BUT_STAY.or_else(PolicyNames("", "gone", "", ""))
        with pytest.raises(ServiceError, match=match):
            pool_of(service.target, policies=policies)


def test_a_number_that_makes_no_sense_is_no_package_that_lacks() -> None:
    with pytest.raises(UsageError, match="N in every-N is a whole number from 1") as caught:
        opened("unix:/nowhere/at/all", "every-007")
    assert "install" not in str(caught.value)


def test_an_engine_that_lacks_the_package_of_the_services_choice_says_so(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_at_the_service(monkeypatch, package)
    with running_service("--retention", "powers") as service:
        with pytest.raises(UsageError, match=r"no retention 'powers'.* install its package there"):
            opened(service.target)
        assert pools_of(service) == []


def test_a_pool_that_is_cut_otherwise_is_closed_before_the_engine_gives_up(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would attach to it: it would hold its share of the service until attach-seconds."""
    monkeypatch.setattr(engine, "make_plan", lambda groups, size: make_plan(groups, size // 2))
    with pytest.raises(PlanMismatch):
        opened(service.target)
    assert pools_of(service) == []


def test_a_package_that_is_installed_at_both_is_gone_by(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_at_the_service(monkeypatch, package)
    monkeypatch.syspath_prepend(package)
    with running_service() as service:
        assert opened(service.target, "powers").policies.retention == "powers"


@pytest.mark.parametrize("name", ["powers", "every-N", "every-0"])
def test_a_service_starts_with_no_name_that_it_does_not_know(name: str) -> None:
    answer = kvquarry("serve", "--listen", "127.0.0.1:0", "--retention", name)
    assert answer.returncode == 2
    assert "engine, dense, boundaries, last, every-N" in answer.stderr
