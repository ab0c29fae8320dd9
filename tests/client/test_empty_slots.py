"""Blocks in use, less the slots that the shadow calls empty, are what was written; C15.

The right value is found block by block: how far the furthest of its requests has come in it.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_client import empty_slots
from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_core.ids import NULL_BLOCK, KindId
from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.retention import Landmarks
from kvquarry_core.usage import usage_of
from tests.client.pools import ATTENTION, BLOCK, HYBRID, STATE, Engine, engine, prompt
from tests.strategies import examples

WINDOW = GroupSpec(GroupKind.SLIDING_WINDOW, BLOCK, 64, 1, window_tokens=2 * BLOCK)
ENCODER = GroupSpec(GroupKind.CROSS_ATTENTION, BLOCK, 64, 1)
SCRATCH = GroupSpec(GroupKind.SCRATCH, 7, 64, 1)
MODELS = {
    "attention": (ATTENTION,),
    "hybrid": HYBRID,
    "windows": (ATTENTION, WINDOW, WINDOW),
}


@dataclass
class Scene:
    """An engine, and how far each of its requests has come."""

    quarry: Engine
    lengths: dict[str, int] = field(default_factory=dict)

    def admit(self, name: str, num_tokens: int, content: str) -> None:
        if self.quarry.admit(name, num_tokens, content):
            self.lengths[name] = num_tokens

    def decode(self, name: str) -> None:
        num_tokens = self.lengths[name] + 1
        if self.quarry.decode(name, num_tokens):
            self.lengths[name] = num_tokens
            hashes = prompt(name, num_tokens).hashes
            self.quarry.shadow.commit(name, hashes, num_tokens, Landmarks((num_tokens,)))
        else:
            self.free(name)

    def free(self, name: str) -> None:
        self.quarry.shadow.free(name)
        del self.lengths[name]

    def empty_slots(self) -> list[int]:
        """By size class, block by block."""
        plan = self.quarry.ledger.pool.plan
        by_class = [0] * len(plan.classes)
        for kind, members in enumerate(plan.kinds):
            spec = plan.spec_of_kind(KindId(kind))
            for group in members:
                if spec.kind is GroupKind.RECURRENT_STATE:
                    by_class[plan.class_of_group[group]] += self._num_idle_states(group) * BLOCK
                else:
                    by_class[plan.class_of_group[group]] += self._num_empty(group)
        return by_class

    def written_bytes(self) -> int:
        """The same of what is written, states that nobody runs on left out."""
        plan, num_bytes = self.quarry.ledger.pool.plan, 0
        for group, spec in enumerate(plan.groups):
            block_bytes = plan.block_bytes(plan.class_of_group[group])
            if spec.kind is GroupKind.RECURRENT_STATE:
                num_bytes += len(self._in_tables(group)) * block_bytes
            else:
                num_bytes += sum(self._written(group).values()) * block_bytes // BLOCK
        return num_bytes

    def _num_empty(self, group: int) -> int:
        return sum(BLOCK - num_tokens for num_tokens in self._written(group).values())

    def _written(self, group: int) -> dict[int, int]:
        """How many tokens each block in use holds."""
        written: dict[int, int] = {}
        for name, length in self.lengths.items():
            for position, block in enumerate(self._table(name, group)):
                if block != NULL_BLOCK:
                    here = min(max(length - position * BLOCK, 0), BLOCK)
                    written[block] = max(written.get(block, 0), here)
        return written

    def _num_idle_states(self, group: int) -> int:
        return len(set(self.quarry.ledger.pool.lease.blocks[group]) - self._in_tables(group))

    def _in_tables(self, group: int) -> set[int]:
        held = {block for name in self.lengths for block in self._table(name, group)}
        return held - {NULL_BLOCK}

    def _table(self, name: str, group: int) -> list[int]:
        request = self.quarry.shadow.find(name)
        assert request is not None
        return [int(block) for block in request.block_ids()[group]]


def walk(scene: Scene, seed: int) -> None:
    """Requests come, share prompts, decode and go; the law is checked after each step."""
    rng = random.Random(seed)
    for step in range(30):
        scene.quarry.shadow.begin_step()
        for name in list(scene.lengths):
            if rng.random() < 0.1:
                scene.free(name)
            else:
                scene.decode(name)
        scene.admit(f"r{step}", rng.randrange(1, 40), rng.choice(["same", f"r{step}"]))
        scene.quarry.shadow.end_step()
        use = scene.quarry.ledger.slot_use()
        assert list(use.empty_slots) == scene.empty_slots()
        assert use.written_bytes == scene.written_bytes()
    for name in list(scene.lengths):
        scene.free(name)
    scene.quarry.shadow.begin_step()
    assert not any(scene.quarry.ledger.slot_use().empty_slots)
    assert scene.quarry.ledger.slot_use().written_bytes == 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ahead_tokens", [0, 4 * BLOCK])
@given(seed=st.integers(0, 1 << 32))
@examples(10)
def test_empty_are_the_slots_that_nobody_has_written(
    model: str, ahead_tokens: int, seed: int
) -> None:
    quarry = engine(MODELS[model], num_slabs=64, ahead_tokens=ahead_tokens)
    walk(Scene(quarry), seed)


def test_the_law_finds_a_count_that_is_wrong_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the law above."""
    count = empty_slots.EmptySlots.count
    monkeypatch.setattr(
        empty_slots.EmptySlots, "count", lambda self: [one + 1 for one in count(self)]
    )
    with pytest.raises(AssertionError):
        walk(Scene(engine(HYBRID, num_slabs=64)), seed=1)


def test_what_two_requests_share_is_full_and_counts_once() -> None:
    quarry = engine((ATTENTION,))
    for name in ("a", "b"):
        assert quarry.admit(name, 2 * BLOCK + 1, "same")
    use = quarry.ledger.slot_use()
    assert quarry.used_bytes() == 4 * 64, "two blocks are shared, and each has one of its own"
    assert use.empty_slots == (2 * (BLOCK - 1),)
    assert use.written_bytes == 2 * 64 + 2 * 64 // BLOCK


def test_a_step_that_needs_no_block_fills_a_slot() -> None:
    quarry = engine((ATTENTION,))
    quarry.admit("a", BLOCK + 1)
    request = quarry.shadow.find("a")
    assert request is not None
    assert quarry.shadow.is_quiet(request, BLOCK + 2, BLOCK + 1)
    assert quarry.ledger.slot_use().empty_slots == (BLOCK - 2,)


def test_a_request_that_was_only_looked_up_has_nothing_that_could_be_empty() -> None:
    quarry = engine((ATTENTION,))
    quarry.shadow.lookup(prompt("a", BLOCK + 1))
    use = quarry.ledger.slot_use()
    assert quarry.used_bytes() > 0
    assert (use.empty_slots, use.written_bytes) == ((0,), 0)


def test_slots_are_empty_until_a_detached_request_is_freed() -> None:
    quarry = engine((ATTENTION,))
    quarry.admit("a", BLOCK + 1)
    handle = quarry.shadow.detach("a")
    assert handle is not None
    assert quarry.ledger.slot_use().empty_slots == (BLOCK - 1,)
    quarry.shadow.free_handle(handle)
    assert quarry.ledger.slot_use().empty_slots == (0,)


def test_an_encoder_fills_blocks_of_its_own_and_scratch_has_no_slots() -> None:
    quarry = engine((ATTENTION, ENCODER, SCRATCH, STATE))
    waiting = Waiting("a", (), num_tokens=BLOCK, encoder_tokens=2 * BLOCK + 1)
    quarry.shadow.lookup(waiting)
    allocation = Allocation(BLOCK, BLOCK, 0)
    assert quarry.shadow.allocate_first(waiting, allocation, keep_free=False)
    assert sum(quarry.ledger.slot_use().empty_slots) == BLOCK - 1


def test_a_growth_that_is_refused_leaves_no_slot_empty() -> None:
    quarry = engine((ATTENTION,), num_slabs=2)
    assert quarry.admit("grows", 2 * BLOCK)
    names = iter("abcdefgh")
    while quarry.admit(next(names), BLOCK):
        pass
    request = quarry.shadow.find("grows")
    assert request is not None
    assert not quarry.shadow.is_quiet(request, 2 * BLOCK + 1, 2 * BLOCK)
    assert not quarry.decode("grows", 2 * BLOCK + 1)
    assert quarry.ledger.slot_use().empty_slots == (0,)
    assert quarry.ledger.slot_use().written_bytes == usage_of(quarry.ledger.pool).used_bytes


def test_who_was_only_looked_up_has_no_empty_slot_either_when_detached() -> None:
    quarry = engine((ATTENTION,))
    quarry.shadow.lookup(prompt("waits", BLOCK + 1))
    handle = quarry.shadow.detach("waits")
    assert handle is not None
    assert quarry.ledger.slot_use().empty_slots == (0,)
    quarry.shadow.free_handle(handle)
