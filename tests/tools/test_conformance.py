"""Every policy on offer passes the conformance suite, and each way to be wrong is caught."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kvquarry_core.demand import Demand
from kvquarry_core.eviction import EVICTIONS, CacheView, Eviction, Lru
from kvquarry_core.gate import Gate
from kvquarry_core.granting import Granter
from kvquarry_core.ids import BlockId, ClassId, SlabId
from kvquarry_core.placement import PLACEMENTS, Affinity, Placement
from kvquarry_core.pool import Pool
from kvquarry_core.relocation import RELOCATIONS, Candidate, EvacuateCheapest, Relocation
from kvquarry_core.requests import RequestRecord
from kvquarry_core.slabs import SlabMap
from kvquarry_core.touched import Touched
from kvquarry_tools.conformance import (
    NotConforming,
    check_eviction,
    check_placement,
    check_relocation,
)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_on_offer_conforms(name: str) -> None:
    check_placement(PLACEMENTS[name])


@pytest.mark.parametrize("name", EVICTIONS)
def test_every_eviction_on_offer_conforms(name: str) -> None:
    check_eviction(EVICTIONS[name])


@pytest.mark.parametrize("name", RELOCATIONS)
def test_every_relocation_on_offer_conforms(name: str) -> None:
    check_relocation(RELOCATIONS[name])


class ChoosesNothing:
    """None though there is room."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        return None


class StaysNear(ChoosesNothing):
    """The request's last slab, full or not."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        return slabs.lowest_partial(size_class) if near is None else near


class TakesIdleSlabs(ChoosesNothing):
    """A slab that another class may have been promised."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        return next(iter(slabs.partial_idle(size_class)), slabs.lowest_partial(size_class))


class TakesOthersSlabs(ChoosesNothing):
    """The other class's slab."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        return slabs.lowest_partial(ClassId(1 - min(size_class, 1)))


class CrossesOff(Affinity):
    """What was chosen is taken out of the map."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        chosen = super().choose(slabs, size_class, near)
        slabs.partial(size_class).clear()
        return chosen


class Crashes(ChoosesNothing):
    """A bug of its own."""

    def choose(self, slabs: SlabMap, size_class: ClassId, near: SlabId | None) -> SlabId | None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "policy",
    [ChoosesNothing, StaysNear, TakesIdleSlabs, TakesOthersSlabs, CrossesOff, Crashes],
)
def test_a_placement_that_breaks_the_rules_is_caught(policy: Callable[[], Placement]) -> None:
    with pytest.raises(NotConforming, match=r"pool \d, operation \d+: "):
        check_placement(policy)


class EvictsNothing(Lru):
    """No victims."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        return ()


class EvictsTheFirst(Lru):
    """Block 0, whoever has it."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        return (BlockId(0),)


class EvictsTwice(Lru):
    """One block, named twice."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        return [
            *super().victims(cache, size_class, most),
            *super().victims(cache, size_class, most),
        ]


class EvictsNeighbours(Lru):
    """The victim's neighbour, too, cached or not."""

    def victims(self, cache: CacheView, size_class: ClassId, most: int) -> Sequence[BlockId]:
        [victim, *_] = super().victims(cache, size_class, most)
        return (victim, BlockId(victim + 1))


class CannotSay(Lru):
    """A worth that compares with nothing."""

    def slab_worth(self, cache: CacheView, size_class: ClassId, slab: SlabId) -> float:
        return float("nan")


@pytest.mark.parametrize(
    "policy", [EvictsNothing, EvictsTheFirst, EvictsTwice, EvictsNeighbours, CannotSay]
)
def test_an_eviction_that_breaks_the_rules_is_caught(policy: Callable[[], Eviction]) -> None:
    with pytest.raises(NotConforming):
        check_eviction(policy)


class ClearsNothing:
    """Refuses, and evicts."""

    most_kept_bytes = 0

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        return ()

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        return None


class ClearsAll(ClearsNothing):
    """Everything that could be moved."""

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        return candidates


class ClearsTwice(ClearsNothing):
    """One slab as often as slabs lack."""

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        return list(candidates[:1]) * (num_slabs + 1)


class ClearsOthers(ClearsNothing):
    """Slabs that nobody offered."""

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        return [replace(one, slab=SlabId(0)) for one in candidates[:num_slabs]]


class SparesOthers(ClearsNothing):
    """A slab that nobody offered."""

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        return replace(candidates[0], slab=SlabId(0))


class SparesTooMuch(ClearsNothing):
    """More cached content than it would have moved."""

    def spare(self, candidates: Sequence[Candidate], lost_bytes: int) -> Candidate | None:
        return max(candidates, key=lambda one: one.cached_bytes)


class MovesLessThanNothing(ClearsNothing):
    """A bound that is none."""

    most_kept_bytes = -1

    def choose(self, candidates: Sequence[Candidate], num_slabs: int) -> Sequence[Candidate]:
        return candidates[:num_slabs]


def test_a_relocation_that_clears_nothing_conforms() -> None:
    check_relocation(ClearsNothing)


@pytest.mark.parametrize(
    "policy",
    [ClearsAll, ClearsTwice, ClearsOthers, SparesOthers, SparesTooMuch, MovesLessThanNothing],
)
def test_a_relocation_that_breaks_the_rules_is_caught(policy: Callable[[], Relocation]) -> None:
    with pytest.raises(NotConforming):
        check_relocation(policy)


def forgets_what_was_promised(self: Granter, _: RequestRecord, wanted: Sequence[int]) -> Demand:
    """Only what is asked for now counts."""
    now = self._plan.by_class(wanted)
    return Demand(now, list(now))


def refuses_the_last_slab(
    self: Gate, demand: Sequence[int], touched: Touched | None = None
) -> bool:
    """One slab less than there is."""
    return self._store.room(touched or ()).num_spare_slabs(demand) > 0


def grants_without_moving(
    self: Gate, demand: Sequence[int], touched: Touched | None = None
) -> bool:
    """One slab more than there is."""
    return self._store.room(touched or ()).num_spare_slabs(demand) >= -1


@pytest.mark.parametrize(
    ("owner", "method", "fault"),
    [
        (Granter, "_demand", forgets_what_was_promised),
        (Gate, "fits", refuses_the_last_slab),
        (Gate, "fits", grants_without_moving),
    ],
)
def test_a_pool_that_breaks_its_word_is_caught(
    owner: type, method: str, fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, fault)
    with pytest.raises(NotConforming):
        check_placement(Affinity)


def test_a_leak_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "give_back", lambda *_: None)
    with pytest.raises(NotConforming, match="something is left"):
        check_relocation(lambda: EvacuateCheapest(most_bytes=1 << 20))
