"""C15 through client, wire and service: blocks in use and slots with content are two figures."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvquarry_client.ledger import Ledger
from kvquarry_client.scheduling import Allocation, ShadowSettings, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import Boundaries, Landmarks
from tests.contract.kvquarry_command import kvquarry
from tests.contract.running_service import RunningService, sound_service
from tests.integration.opening import opened

BLOCK, BLOCK_BYTES = 16, 256
ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, BLOCK, BLOCK_BYTES, 1)
NUM_REQUESTS, NUM_BLOCKS = 2_000, 6_000


@dataclass(frozen=True)
class Engine:
    """An engine's shadow, and what the service says of its pool."""

    shadow: Shadow
    name: str
    service: RunningService

    def start(self, name: str, num_tokens: int, content: str) -> None:
        """Compute a prompt in one chunk; equal contents share their full blocks."""
        hashes = [BlockHash(f"{content}/{index}".encode()) for index in range(num_tokens // BLOCK)]
        waiting = Waiting(name, hashes, num_tokens)
        hit_tokens = self.shadow.lookup(waiting).hit_tokens
        allocation = Allocation(num_tokens, num_tokens, hit_tokens)
        assert self.shadow.allocate_first(waiting, allocation, keep_free=False) is not None
        self.shadow.commit(name, hashes, num_tokens, Landmarks())

    def told(self) -> dict[str, Any]:
        """What ``kvquarry status`` says once the service has heard all."""
        self.shadow.ledger.flush()
        status = json.loads(kvquarry("status", "--target", self.service.target, "--json").stdout)
        pools: list[dict[str, Any]] = status["pools"]
        return next(one for one in pools if one["attachments"][0]["engine"] == self.name)

    def metric(self, name: str) -> float:
        """What Prometheus would hear."""
        [value] = (
            sample.value
            for family in text_string_to_metric_families(self.service.metrics())
            for sample in family.samples
            if sample.name == name and sample.labels["engine"] == self.name
        )
        return value


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service() as service:
        yield service


@pytest.fixture
def open_engine(
    service: RunningService, request: pytest.FixtureRequest
) -> Iterator[Callable[[], Engine]]:
    ledgers: list[Ledger] = []

    def open_one() -> Engine:
        name = request.node.name
        ledger, shadow = open_shadow(service.target, name)
        ledgers.append(ledger)
        return Engine(shadow, name, service)

    yield open_one
    for ledger in ledgers:
        ledger.close()


def open_shadow(target: str, name: str) -> tuple[Ledger, Shadow]:
    """A pool of 6,000 blocks, beside the null block."""
    pool_bytes = (NUM_BLOCKS + 1) * BLOCK_BYTES
    ledger, plan = opened(target, name, (ATTENTION,), pool_bytes)
    settings = ShadowSettings(
        max_grant_tokens=64,
        lookahead_tokens=0,
        must_fit_whole=True,
        keep_free_blocks=(),
        checkpoints=Checkpoints(Boundaries(), BLOCK),
    )
    return ledger, Shadow(plan, ledger, settings)


def test_c15_the_service_tells_how_many_slots_hold_data(open_engine: Callable[[], Engine]) -> None:
    """2,000 requests of 17 and 18 tokens, half each: two blocks each, the second nearly empty."""
    engine = open_engine()
    for number in range(NUM_REQUESTS):
        engine.start(f"r{number}", 17 + number % 2, f"r{number}")
    told = engine.told()
    used, usable = told["usage"]["used_size_bytes"], told["usage"]["usable_size_bytes"]
    assert used / usable == pytest.approx(0.667, abs=0.001)
    assert told["written_size_bytes"] / usable == pytest.approx(0.365, abs=0.001)
    assert told["empty_slot_counts"] == [1_000 * 15 + 1_000 * 14]
    assert engine.metric("kvquarry_pool_used_bytes") == used
    assert engine.metric("kvquarry_pool_written_bytes") == told["written_size_bytes"]
    assert engine.metric("kvquarry_empty_slots") == 29_000

    for number in range(NUM_REQUESTS):
        engine.shadow.free(f"r{number}")
    told = engine.told()
    assert told["usage"]["used_size_bytes"] == 0
    assert (told["empty_slot_counts"], told["written_size_bytes"]) == ([0], 0)


@pytest.mark.parametrize("num_tokens", [32, 33])
def test_full_blocks_are_written_whole(open_engine: Callable[[], Engine], num_tokens: int) -> None:
    """The negative control: were every block in use called full, these two would be alike."""
    engine = open_engine()
    engine.start("a", num_tokens, "a")
    told = engine.told()
    num_empty = -num_tokens % BLOCK
    assert told["empty_slot_counts"] == [num_empty]
    used, written = told["usage"]["used_size_bytes"], told["written_size_bytes"]
    assert used - written == num_empty * BLOCK_BYTES // BLOCK


def test_requests_that_share_a_prompt_fill_no_slot_twice(
    open_engine: Callable[[], Engine],
) -> None:
    """Eight of 33 tokens share two blocks: ten blocks, two full and eight with one token each."""
    engine = open_engine()
    for number in range(8):
        engine.start(f"r{number}", 33, "the same")
    told = engine.told()
    assert told["usage"]["used_size_bytes"] == 10 * BLOCK_BYTES
    assert told["empty_slot_counts"] == [8 * 15]
    assert told["written_size_bytes"] == 2 * BLOCK_BYTES + 8 * BLOCK_BYTES // BLOCK


def test_tokens_decoded_since_are_told_with_the_next_message(
    open_engine: Callable[[], Engine],
) -> None:
    engine = open_engine()
    engine.start("a", 17, "a")
    assert engine.told()["empty_slot_counts"] == [15]
    request = engine.shadow.find("a")
    assert request is not None
    for num_tokens in range(18, 32):
        assert engine.shadow.is_quiet(request, num_tokens, num_tokens - 1)
        engine.shadow.end_step()
    assert engine.told()["empty_slot_counts"] == [15], "nothing was to be said"
    engine.shadow.ledger.begin_step()
    assert engine.told()["empty_slot_counts"] == [1]
