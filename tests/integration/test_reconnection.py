"""An open stream holds the lease, so an engine connects again by itself, busy or idle."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvquarry_client.errors import PoolLost, ServiceUnavailable
from tests.client.pools import prompt
from tests.contract.running_service import RunningService, sound_service
from tests.integration.opening import opened
from tests.integration.proxy import Link
from tests.integration.test_session import shadow_over, status

LEASE_S = 1.5


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service("--lease-seconds", str(LEASE_S)) as service:
        yield service


def is_attached(service: RunningService, engine: str) -> bool:
    attachments = status(service, engine)["attachments"]
    assert isinstance(attachments, list)
    return bool(attachments[0]["attached"])


def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within_s
        time.sleep(0.02)


def test_an_idle_engine_outlives_a_cut_that_is_mended_within_the_lease(
    service: RunningService, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    """It sends nothing for longer than the lease: the stream it opened again keeps its pool."""
    with caplog.at_level(logging.WARNING):
        ledger, _ = opened(f"unix:{link.front}", "idle")
        link.cut()
        until(lambda: "found kvquarry" in caplog.text)
        time.sleep(LEASE_S + 0.5)
    assert "lost kvquarry" in caplog.text
    assert is_attached(service, "idle")
    assert ledger.num_exchanges == 0
    assert ledger.reset_cache()
    ledger.close()


def test_an_idle_engine_that_is_cut_off_for_good_is_told_at_its_next_exchange(
    service: RunningService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    front = tmp_path / "front"
    back = Path(service.target.removeprefix("unix:"))
    link = Link(front, back)
    ledger, _ = opened(f"unix:{front}", "late", timeout_s=1)
    link.close()
    with pytest.raises(ServiceUnavailable, match="front"):
        ledger.reset_cache()
    time.sleep(LEASE_S)
    front.unlink()
    link = Link(front, back)
    until(lambda: "restart the engine" in caplog.text)
    with pytest.raises(PoolLost, match="longer than its lease"):
        ledger.reset_cache()
    ledger.close()
    link.close()


def test_steps_that_ask_nothing_go_on_while_the_service_is_away(
    service: RunningService, tmp_path: Path
) -> None:
    front = tmp_path / "front"
    back = Path(service.target.removeprefix("unix:"))
    link = Link(front, back)
    ledger, plan = opened(f"unix:{front}", "busy")
    shadow = shadow_over(ledger, plan)
    shadow.lookup(prompt("a", 20))
    link.close()
    start = time.monotonic()
    shadow.free("a")
    for _ in range(10):
        shadow.begin_step()
        ledger.flush()
    assert time.monotonic() - start < 0.5
    front.unlink()
    link = Link(front, back)
    assert ledger.reset_cache(), "the free arrived before the reset"
    ledger.close()
    link.close()


def test_a_closed_engine_does_not_come_back(service: RunningService, link: Link) -> None:
    ledger, _ = opened(f"unix:{link.front}", "gone")
    ledger.close()
    link.cut()
    time.sleep(0.5)
    assert "engine=gone" in service.log
    assert service.log.count("stream opened engine=gone") == 1
    with pytest.raises(StopIteration):
        status(service, "gone")
