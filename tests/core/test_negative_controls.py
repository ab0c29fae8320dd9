"""The laws can fail: each sabotage of the core is caught by a run that the sound core passes."""

import dataclasses
import re
from collections.abc import Callable

import pytest

from kvquarry_core.allocator import Allocator
from kvquarry_core.block_store import BlockStore
from kvquarry_core.contents import Contents
from kvquarry_core.errors import BrokenLaw, UsageError
from kvquarry_core.eviction import Lru
from kvquarry_core.ids import BlockId
from kvquarry_core.pins import Pins
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import PrefixIndex
from tests.core import expectations, reference, sabotage, test_eviction, test_pins_making_way
from tests.core.memory import Key, Memory
from tests.core.random_walk import RandomWalk
from tests.core.retaining_engine import RetainingEngine
from tests.core.sabotage import RUN_SABOTAGES, WINDOW_SABOTAGES, Sabotage
from tests.core.walk_pools import WALK_POOLS

PLANS = {name: WALK_POOLS[name] for name in ("attention", "ratio 2.5", "three sizes")}
NUM_OPERATIONS = 1500
#: How a broken core shows: in a law, in an answer, or in books that cannot be kept any more.
CAUGHT = (AssertionError, BrokenLaw, IndexError, KeyError, ValueError)


def run_long_enough(engine: RetainingEngine) -> None:
    """A run that comes upon everything, with all laws checked after each operation."""
    walk = RandomWalk(engine, seed=7)
    walk.run(NUM_OPERATIONS)
    walk.end()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_sound_core_passes(plan: Plan) -> None:
    run_long_enough(RetainingEngine(plan))


@pytest.mark.parametrize("fault", RUN_SABOTAGES, ids=lambda fault: fault.replacement.__name__)
def test_a_broken_core_is_caught(fault: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault.owner, fault.method, fault.replacement)
    assert any(how_it_ends(RetainingEngine(plan)) for plan in PLANS.values())


@pytest.mark.parametrize("fault", WINDOW_SABOTAGES, ids=lambda fault: fault.replacement.__name__)
def test_a_broken_window_is_caught(fault: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [WALK_POOLS["window beside attention"], WALK_POOLS["draft model"]]
    for plan in plans:
        run_long_enough(RetainingEngine(plan))
    monkeypatch.setattr(fault.owner, fault.method, fault.replacement)
    assert any(how_it_ends(RetainingEngine(plan)) for plan in plans)


class BlindEngine(RetainingEngine):
    """Sees nothing but the bytes: what is hit, what is held, and what can be found."""

    def check(self) -> None:
        there = {pin.pin_id for pin in self.pool.pins}
        self.drop_pins([name for name in self.books.pins if name not in there])
        self.check_content()

    def check_owners(self) -> None:
        pass

    def check_luxury(self, *_: object) -> None:
        pass


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> type[RetainingEngine]:
    """An engine that compares no answer with any books."""
    for check in ("check_answer", "check_growth", "check_evictions", "check_pin"):
        monkeypatch.setattr(expectations, check, lambda *_: None)
    monkeypatch.setattr(reference, "fits", lambda *_: True)
    return BlindEngine


CONTENT = r"hit .* found|wrote|lost its content|is dirty and nobody said so"
SEEN_IN_THE_BYTES = {
    "shared blocks are freed": Sabotage(
        BlockStore, "release", sabotage.release_frees_what_is_shared
    ),
    "blocks in use are evicted": Sabotage(BlockStore, "touch", sabotage.touch_takes_no_reference),
    "evicted content is found": Sabotage(Contents, "forget", sabotage.forget_keeps_the_index_entry),
    "other content is found": Sabotage(PrefixIndex, "find", sabotage.find_by_the_first_letter),
}


@pytest.mark.parametrize("fault", SEEN_IN_THE_BYTES.values(), ids=SEEN_IN_THE_BYTES)
def test_wrong_content_is_seen_in_the_bytes_alone(
    fault: Sabotage, blind: type[RetainingEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some of the pools the core trips over itself first; in one at least the bytes tell."""
    run_long_enough(blind(WALK_POOLS["ratio 2.5"]))
    monkeypatch.setattr(fault.owner, fault.method, fault.replacement)
    seen = [str(how_it_ends(blind(plan))) for plan in WALK_POOLS.values()]
    assert any(re.search(CONTENT, message) for message in seen), seen


def how_it_ends(engine: RetainingEngine) -> BaseException | None:
    """What a run on a broken core ends with."""
    try:
        run_long_enough(engine)
    except (*CAUGHT, UsageError) as error:
        return error
    return None


@pytest.mark.parametrize("stride_bytes", [32, 48, 64, 72])
def test_a_worker_with_a_wrong_stride_is_caught_by_the_bytes(
    stride_bytes: int, blind: type[RetainingEngine]
) -> None:
    """All books agree; only the memory shows that states lie on top of attention."""
    plan = WALK_POOLS["ratio 2.5"]
    attention, states = plan.classes
    wrong = dataclasses.replace(
        plan, classes=(attention, dataclasses.replace(states, stride_bytes=stride_bytes))
    )
    with pytest.raises(AssertionError, match=CONTENT):
        run_long_enough(blind(plan, view=wrong))


class ShiftedMemory(Memory):
    """Attention one block further on than the pool believes."""

    def cells(self, key: Key) -> range:
        size_class, block = key
        return super().cells((size_class, BlockId(block + (size_class == 0))))


def test_ids_shifted_by_one_block_are_caught_by_the_bytes(blind: type[RetainingEngine]) -> None:
    plan = WALK_POOLS["ratio 2.5"]
    engine = blind(plan)
    engine.memory = ShiftedMemory(dataclasses.replace(plan, num_slabs=plan.num_slabs + 1))
    with pytest.raises(AssertionError, match=CONTENT):
        run_long_enough(engine)


POLICY_CONTROLS: dict[str, tuple[Sabotage, Callable[[], None]]] = {
    "head before tail": (
        Sabotage(Pool, "free", sabotage.free_head_before_tail),
        test_eviction.test_free_returns_tail_before_head,
    ),
    "the newest first": (
        Sabotage(Lru, "victims", sabotage.evict_the_newest),
        test_eviction.test_the_block_used_longest_ago_goes_first,
    ),
    "slabs that stay where they are": (
        Sabotage(Allocator, "_spare_slab", sabotage.never_another_class),
        test_eviction.test_a_slab_of_another_class_goes_iff_it_is_idle_longer_than_the_own_victim,
    ),
    "the pin that lapses last": (
        Sabotage(Pins, "__iter__", sabotage.concessions_are_made_in_no_order),
        test_pins_making_way.test_no_more_pins_give_way_than_must_and_the_first_to_lapse_is_the_first,
    ),
    "orphans": (
        Sabotage(Contents, "forget", sabotage.forget_leaves_orphans),
        test_eviction.test_rows_are_evicted_together_and_leave_no_orphan,
    ),
}


@pytest.mark.parametrize("control", POLICY_CONTROLS.values(), ids=POLICY_CONTROLS)
def test_a_broken_policy_is_caught(
    control: tuple[Sabotage, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, law = control
    law()
    monkeypatch.setattr(fault.owner, fault.method, fault.replacement)
    with pytest.raises(CAUGHT):
        law()
