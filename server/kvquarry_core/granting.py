"""Blocks on their way to requests: granted, then spent or given back."""

from collections.abc import Iterable, Sequence

from kvquarry_core.allocator import Allocator
from kvquarry_core.block_store import BlockStore
from kvquarry_core.concession import Concession
from kvquarry_core.demand import Demand
from kvquarry_core.evacuation import NO_EVACUATION, Evacuation, Evacuator
from kvquarry_core.gate import Gate
from kvquarry_core.ids import BlockId, GroupId
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
        # The largest blocks first.
        self._order = sorted(
            map(GroupId, range(len(self._plan.groups))),
            key=lambda group: -self._plan.class_of_group[group],
        )

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
        moves = self._evacuator.clear(evacuation)
        demand = self._demand(record, wanted)
        self._allocator.secure(demand)
        blocks: list[list[BlockId]] = [[] for _ in wanted]
        dirty: list[list[BlockId]] = [[] for _ in wanted]
        for group in self._order:
            if wanted[group]:
                blocks[group] = self._grant_group(record, group, wanted[group], demand)
                size_class = self._plan.class_of_group[group]
                dirty[group] = self._store.slabs.dirty_among(size_class, blocks[group])
        return Grant(tuple(blocks), tuple(dirty), moves)

    def spend(self, record: RequestRecord, group: GroupId, num_blocks: int) -> list[BlockId]:
        """Granted blocks become the request's own, in the order granted."""
        granted = record.granted[group]
        taken = granted[:num_blocks]
        del granted[:num_blocks]
        self._store.spend(self._plan.class_of_group[group], taken)
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

    def _demand(self, record: RequestRecord, wanted: Sequence[int]) -> Demand:
        """What a grant hands out, and what else has to fit afterwards, where that fits now."""
        for group, blocks in enumerate(wanted):
            if blocks:
                self._requests.note_granted(record, GroupId(group), blocks)
        now = self._plan.by_class(wanted)
        promised = [blocks + later for blocks, later in zip(now, self._requests.owed, strict=True)]
        if not self._gate.fits(promised):
            promised = list(now)
        return Demand(now, promised)

    def _grant_group(
        self, record: RequestRecord, group: GroupId, num_blocks: int, demand: Demand
    ) -> list[BlockId]:
        size_class = self._plan.class_of_group[group]
        near = record.last_slab.get(size_class)
        blocks = self._allocator.grant(size_class, num_blocks, near, demand)
        self._evacuator.hold_still(size_class, blocks)
        record.last_slab[size_class] = self._store.slabs.slab_of(size_class, blocks[-1])
        record.granted[group] += blocks
        return blocks
