"""With relocation, cached content moves to holes where it would be evicted for a slab."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvquarry_core.cache import Cache
from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant
from kvquarry_core.relocation import Candidate, EvacuateCheapest
from tests.core.memory import Memory
from tests.core.prefill import prefill
from tests.core.relocating_engine import RelocatingEngine
from tests.core.small_pools import hashes, request, two_classes

ATTENTION_GROUP = GroupId(0)
BLOCK_BYTES = 16
PLENTY = 1 << 20


def engine_with(
    most_kept_bytes: int, policy_type: type[EvacuateCheapest] = EvacuateCheapest
) -> RelocatingEngine:
    """Six slabs of three attention blocks or one state, in a pool that moves what is needed."""
    policy = policy_type(most_bytes=PLENTY, most_kept_bytes=most_kept_bytes)
    return RelocatingEngine(two_classes(num_slabs=6), policy)


def run(engine: RelocatingEngine, handle: int, text: str) -> None:
    """A request that fills three blocks and goes on."""
    assert isinstance(engine.admit(_on_leased_states(handle, text), text), Admission)
    prefill(engine, Handle(handle))


def _on_leased_states(handle: int, text: str) -> AdmitRequest:
    return replace(request(handle, text), states_are_leased=True)


def keep_checkpoint(engine: RelocatingEngine, handle: int, prefix: str) -> None:
    """The request leaves the state after a prefix, and holds it."""
    assert isinstance(engine.lease([0, 1]), Grant)
    [kind] = [kind for kind, _ in engine.possible_checkpoints(Handle(handle))]
    engine.commit_leased(Handle(handle), kind, hashes(prefix)[-1])


def empty(engine: RelocatingEngine, handle: int, index: int) -> None:
    """A request gives up a block that nobody is to find again."""
    [place] = engine.books.requests[Handle(handle)].held[ATTENTION_GROUP][index : index + 1]
    engine.forget(ATTENTION_GROUP, [place.block])
    engine.drop(Handle(handle), ATTENTION_GROUP, index)


def hit_tokens(engine: RelocatingEngine, text: str) -> int:
    """How much of a text is found; each block that is hit was read."""
    answer = engine.admit(_on_leased_states(9, text), text)
    assert isinstance(answer, Admission)
    engine.check()
    return answer.hit_tokens


def beside_used(most_kept_bytes: int) -> RelocatingEngine:
    """Of the first slab a block is used and one cached; each of five has a hole; nothing else."""
    engine = engine_with(most_kept_bytes)
    for handle, text in enumerate(("abc", "def", "ghi", "jkl", "mno")):
        run(engine, handle, text)
    keep_checkpoint(engine, 0, "ab")
    for handle in range(5):
        empty(engine, handle, 2)
    engine.drop(Handle(0), ATTENTION_GROUP, 1)
    engine.begin_step()
    assert not engine.pool.store.slabs.num_unassigned
    assert not engine.pool.gate.fits([0, 1])
    return engine


@pytest.mark.parametrize(
    ("most_kept_bytes", "num_moves", "hit"),
    [(0, 1, 0), (BLOCK_BYTES - 1, 1, 0), (BLOCK_BYTES, 2, 2)],
)
def test_cached_content_of_a_slab_that_is_cleared_moves_along(
    most_kept_bytes: int, num_moves: int, hit: int
) -> None:
    """A state does not fit; one used block has to move for it, and the cached one may."""
    engine = beside_used(most_kept_bytes)
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert len(answer.moves) == num_moves
    assert hit_tokens(engine, "abx") == hit


def test_used_blocks_get_the_holes_before_cached_ones() -> None:
    """Two holes elsewhere: two used blocks take them, and what was cached beside them goes."""
    engine = engine_with(PLENTY)
    for handle, text in enumerate(("abc", "def", "ghi", "jkl", "mno")):
        run(engine, handle, text)
    keep_checkpoint(engine, 0, "ab")
    engine.drop(Handle(0), ATTENTION_GROUP, 2)
    empty(engine, 1, 2)
    empty(engine, 2, 2)
    engine.begin_step()
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert len(answer.moves) == 2
    assert sum(engine.pool.store.num_evictions) == 1
    engine.check()


def with_an_idle_slab(
    most_kept_bytes: int, policy_type: type[EvacuateCheapest] = EvacuateCheapest
) -> RelocatingEngine:
    """A slab holds cached content alone; in each of four others one block is used, no more."""
    engine = engine_with(most_kept_bytes, policy_type)
    for handle, text in enumerate(("abc", "def", "ghi", "jkl", "mno")):
        run(engine, handle, text)
    keep_checkpoint(engine, 0, "ab")
    for handle in range(1, 5):
        empty(engine, handle, 2)
        empty(engine, handle, 1)
    for _ in range(3):
        engine.drop(Handle(0), ATTENTION_GROUP, 0)
    engine.begin_step()
    assert not engine.pool.store.slabs.num_unassigned
    assert engine.pool.gate.fits([0, 1])
    return engine


@pytest.mark.parametrize(
    ("most_kept_bytes", "num_moves", "hit"),
    [(0, 0, 0), (BLOCK_BYTES - 1, 0, 0), (BLOCK_BYTES, 1, 2)],
)
def test_an_idle_slab_stays_where_another_one_can_be_cleared(
    most_kept_bytes: int, num_moves: int, hit: int
) -> None:
    """A state fits in place of three cached blocks, or of one used block that moves."""
    engine = with_an_idle_slab(most_kept_bytes)
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert len(answer.moves) == num_moves
    assert (sum(engine.pool.store.num_evictions) == 0) == (hit > 0)
    assert hit_tokens(engine, "abx") == hit


def test_nothing_moves_while_somebody_waits_for_the_ids_of_this_step() -> None:
    """All who could move were handed a block in this step, so cached content goes."""
    engine = with_an_idle_slab(PLENTY)
    for handle in range(1, 5):
        assert isinstance(engine.grow(Handle(handle), [1, 0]), Grant)
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert not answer.moves
    assert sum(engine.pool.store.num_evictions) == 3


def test_nothing_moves_for_the_sake_of_what_no_hit_can_reach() -> None:
    """A request that left no checkpoint is over: its attention goes first, and at no loss."""
    engine = engine_with(PLENTY)
    for handle, text in enumerate(("abc", "def", "ghi", "jkl", "mno", "pqr")):
        run(engine, handle, text)
    for handle in range(1, 6):
        empty(engine, handle, 2)
        empty(engine, handle, 1)
    engine.free(Handle(0))
    engine.begin_step()
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert not answer.moves
    assert sum(engine.pool.store.num_evictions) == 3


class Declining(EvacuateCheapest):
    """Rather evicts, and counts how often it was asked."""

    num_asked = 0

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        Declining.num_asked += 1
        return None


def test_a_policy_that_would_rather_evict_is_asked_once_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Candidates are looked for in all slabs with holes, which nobody can do for each block."""
    monkeypatch.setattr(Declining, "num_asked", 0)
    engine = with_an_idle_slab(PLENTY, Declining)
    store, evacuator = engine.pool.store, engine.pool.evacuator
    idle = store.cache.longest_idle(ClassId(0))
    assert idle is not None
    for _ in range(3):
        assert not evacuator.spare(idle, ClassId(0), [0, 1])
    assert Declining.num_asked == 1
    engine.begin_step()
    assert not evacuator.spare(idle, ClassId(0), [0, 1])
    assert Declining.num_asked == 2


def test_what_moved_is_as_old_as_it_was() -> None:
    """Of two cached blocks that which fell out of use first is still the first to go."""
    engine = engine_with(PLENTY)
    for handle, text in enumerate(("abc", "def", "ghi", "jkl", "mno", "pqr")):
        run(engine, handle, text)
    for handle in range(1, 6):
        empty(engine, handle, 2)
    engine.drop(Handle(0), ATTENTION_GROUP, 2)
    engine.drop(Handle(1), ATTENTION_GROUP, 1)
    engine.drop(Handle(0), ATTENTION_GROUP, 1)
    engine.begin_step()
    before = ages(engine)
    answer = engine.lease([0, 1])
    assert isinstance(answer, Grant)
    assert sum(engine.pool.store.num_evictions) == 0
    assert engine.num_kept
    assert ages(engine) == before


def ages(engine: RelocatingEngine) -> list[tuple[BlockHash | None, int]]:
    """The cached attention, the oldest first, by what it is and when it fell out of use."""
    store = engine.pool.store
    return [
        (store.contents.hash_of(ClassId(0), block), store.cache.stamp_of(ClassId(0), block))
        for block in store.cache.by_age(ClassId(0))
    ]


# A broken core, and a worker that does not do as it is told.


def moved_content_is_the_newest(
    self: Cache, size_class: ClassId, source: BlockId, target: BlockId
) -> None:
    """As if it had been used."""
    self._blocks[size_class].remove(source)
    self._push(size_class, (target,))


def test_a_core_that_makes_moved_content_younger_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "move", moved_content_is_the_newest)
    with pytest.raises(AssertionError):
        test_what_moved_is_as_old_as_it_was()


def test_content_that_is_not_copied_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memory, "copy", lambda *_: None)
    engine = beside_used(PLENTY)
    engine.lease([0, 1])
    with pytest.raises(AssertionError, match="found"):
        hit_tokens(engine, "abx")
