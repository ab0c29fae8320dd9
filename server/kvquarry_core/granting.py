"""Blocks on their way to requests: granted, then spent or given back."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kvquarry_core.allocator import Allocator
from kvquarry_core.block_store import BlockStore
from kvquarry_core.concession import Concession
from kvquarry_core.demand import Demand
from kvquarry_core.evacuation import NO_EVACUATION, Evacuation, Evacuator
from kvquarry_core.gate import Gate
from kvquarry_core.ids import BlockId, ClassId, GroupId
from kvquarry_core.messages import Grant, Refusal
from kvquarry_core.requests import RequestRecord
from kvquarry_core.running import RunningRequests


class Granter:
    """Grants what the gate lets through."""

    def __init__(
        self,
        store: BlockStore,
        requests: RunningRequests,
        gate: Gate,
        allocator: Allocator,
        evacuator: Evacuator,
    ) -> None:
        self._plan = store.plan
        self._store = store
        self._requests = requests
        self._gate = gate
        self._allocator = allocator
        self._evacuator = evacuator
        classes = map(ClassId, range(len(self._plan.classes)))
        self._groups_of_class = [(one, self._plan.groups_of_class(one)) for one in classes]
        self._groups_of_class.reverse()  # The largest blocks first.

    def grant_or_refuse(
        self,
        record: RequestRecord,
        wanted: Sequence[int],
        total: Sequence[int],
        concessions: Iterable[Concession],
    ) -> Grant | Refusal:
        """Grant ``wanted`` blocks by group to whoever then has ``total``, or say why not.

        Where there is no other way, the first of the concessions that suffices is made.
        """
        demand = self._plan.by_class(wanted)
        evacuation = self._gate.way(demand)
        if evacuation is not None:
            return self.grant(record, wanted, evacuation)
        for concession in concessions:
            if concession.fits(demand):
                concession.carry_out()
                return self.grant(record, wanted)
        if self._plan.could_hold(self._plan.by_class(total)):
            return self._gate.shortage(demand)
        return self._gate.never(demand)

    def grant(
        self,
        record: RequestRecord,
        wanted: Sequence[int],
        evacuation: Evacuation = NO_EVACUATION,
    ) -> Grant:
        """Hand out what the gate promised, the largest blocks first, after what has to be moved."""
        self._evacuator.clear(evacuation)
        demand = self._demand(record, wanted)
        self._allocator.secure(demand)
        blocks: list[list[BlockId]] = [[] for _ in wanted]
        dirty: list[list[BlockId]] = [[] for _ in wanted]
        for size_class, groups in self._groups_of_class:
            if demand.now[size_class]:
                of_class = self._take(record, size_class, demand)
                for group in groups:
                    blocks[group] = mine = list(islice(of_class, wanted[group]))
                    dirty[group] = self._store.slabs.dirty_among(size_class, mine)
                    record.granted[group] += mine
                    record.may_be_dirty[group] |= bool(dirty[group])
        return Grant(tuple(blocks), tuple(dirty), self._evacuator.take_moves())

    def spend(self, record: RequestRecord, group: GroupId, num_blocks: int) -> list[BlockId]:
        """Granted blocks become the request's own, in the order granted."""
        granted = record.granted[group]
        taken = granted[:num_blocks]
        del granted[:num_blocks]
        size_class, may_be_dirty = self._plan.class_of_group[group], record.may_be_dirty[group]
        self._store.spend(size_class, taken, may_be_dirty=may_be_dirty)
        record.may_be_dirty[group] &= bool(granted)
        record.held[group] += taken
        return taken

    def settle(self, record: RequestRecord) -> None:
        """Give back what was granted and not spent."""
        for index, granted in enumerate(record.granted):
            if granted:
                group = GroupId(index)
                self._requests.note_granted(record, group, -len(granted))
                self._store.give_back(self._plan.class_of_group[group], granted[::-1])
                granted.clear()
                record.may_be_dirty[index] = False

    def _demand(self, record: RequestRecord, wanted: Sequence[int]) -> Demand:
        """What a grant hands out, and what else has to fit afterwards, where that fits now."""
        for group, blocks in enumerate(wanted):
            if blocks:
                self._requests.note_granted(record, GroupId(group), blocks)
        now = self._plan.by_class(wanted)
        promised = [blocks + later for blocks, later in zip(now, self._requests.owed, strict=True)]
        if promised != now and not self._gate.fits(promised):
            promised = list(now)
        return Demand(now, promised)

    def _take(
        self, record: RequestRecord, size_class: ClassId, demand: Demand
    ) -> Iterator[BlockId]:
        """What all groups of a class are granted, near what the request took there last."""
        near = record.last_slab.get(size_class)
        blocks = self._allocator.grant(size_class, demand.now[size_class], near, demand)
        self._evacuator.hold_still(size_class, blocks)
        record.last_slab[size_class] = self._store.slabs.slab_of(size_class, blocks[-1])
        return iter(blocks)
