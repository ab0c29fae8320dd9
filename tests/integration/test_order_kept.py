"""What answers tell of blocks that moved, or of content that is gone, is told in its order."""

import random
from collections.abc import Iterator

import pytest

from kvquarry_client.ledger import Ledger
from kvquarry_client.scheduling import Allocation, ShadowSettings
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash
from kvquarry_core.plan import Plan
from kvquarry_core.policies import PolicyNames
from kvquarry_core.retention import Boundaries, Landmarks
from tests.client.pools import ATTENTION, BLOCK, CHUNK, prompt
from tests.contract.running_service import RunningService, sound_service
from tests.integration.opening import opened

AHEAD_TOKENS = 8 * BLOCK
MOVING = PolicyNames("first-fit", "lru", "evacuate")
#: With these, blocks move between a commit, or a drop, and the answer that overtook it.
SEEDS = (0, 54)
#: More than are told in one answer.
MANY_BLOCKS = 25_000


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with sound_service() as service:
        yield service


def shadow_of(ledger: Ledger, plan: Plan, *, moves_blocks: bool, chunk: int) -> Shadow:
    settings = ShadowSettings(
        max_grant_tokens=chunk,
        lookahead_tokens=0,
        must_fit_whole=True,
        keep_free_blocks=(),
        checkpoints=Checkpoints(Boundaries(), BLOCK),
        ahead_tokens=AHEAD_TOKENS,
        moves_blocks=moves_blocks,
    )
    return Shadow(plan, ledger, settings)


def start(shadow: Shadow, name: str, num_tokens: int, content: str = "") -> bool:
    """Look up, compute in one chunk and commit."""
    waiting = prompt(name, num_tokens, content)
    hit_tokens = shadow.lookup(waiting).hit_tokens
    allocation = Allocation(num_tokens, num_tokens, hit_tokens)
    if shadow.allocate_first(waiting, allocation, keep_free=True) is None:
        return False
    shadow.commit(name, waiting.hashes, num_tokens, Landmarks((num_tokens,)))
    return True


def go_on(shadow: Shadow, name: str, num_tokens: int) -> bool:
    """Compute one token more, so that there are ``num_tokens``."""
    request = shadow.find(name)
    assert request is not None
    if not shadow.allocate(request, Allocation(num_tokens, num_tokens, num_tokens - 1)):
        return False
    hashes = prompt(name, num_tokens).hashes
    shadow.commit(name, hashes, num_tokens, Landmarks((num_tokens,)))
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_move_are_called_by_the_names_they_had(
    service: RunningService, seed: int
) -> None:
    rng = random.Random(seed)
    num_slabs = rng.choice([120, 160, 240])
    ledger, plan = opened(
        service.target, f"moving-{seed}", pool_bytes=num_slabs * 192, policies=MOVING
    )
    shadow = shadow_of(ledger, plan, moves_blocks=True, chunk=CHUNK)
    lengths: dict[str, int] = {}
    num_moves = 0
    for step in range(120):
        shadow.begin_step()
        for name in list(lengths):
            lengths[name] += 1
            if rng.random() < 0.04 or not go_on(shadow, name, lengths[name]):
                shadow.free(name)
                del lengths[name]
        if len(lengths) < 14:
            num_tokens = rng.choice([5, 9, 13, 30, 60, 100, 200, 300])
            if start(shadow, f"r{step}", num_tokens):
                lengths[f"r{step}"] = num_tokens
        num_moves += len(shadow.take_moves())
        shadow.end_step()
    for name in lengths:
        shadow.free(name)
    assert shadow.reset_cache()
    assert num_moves
    ledger.close()


def test_nothing_is_told_as_evicted_that_was_committed_again(service: RunningService) -> None:
    """A large pool forgets more than one answer tells; the rest is told behind the commit."""
    memory_bytes = 6 * MANY_BLOCKS // 5 * 64
    ledger, plan = opened(service.target, "forgetting", (ATTENTION,), memory_bytes)
    shadow = shadow_of(ledger, plan, moves_blocks=False, chunk=MANY_BLOCKS * BLOCK)
    texts = [f"t{number}" for number in range(10)]
    num_tokens = MANY_BLOCKS // len(texts) * BLOCK + 1
    for text in texts:
        shadow.begin_step()
        assert start(shadow, text, num_tokens)
        shadow.free(text)
    shadow.begin_step()
    assert shadow.reset_cache()
    told: set[BlockHash] = {one.block_hash for one in ledger.take_evictions()}
    assert len(told) < MANY_BLOCKS, "nothing was left to be told"
    assert start(shadow, "again", num_tokens, texts[-1])
    ledger.take_evictions()
    assert start(shadow, "other", 3 * BLOCK)
    told = {one.block_hash for one in ledger.take_evictions()}
    assert told.isdisjoint(prompt("", num_tokens, texts[-1]).hashes)
    ledger.close()
