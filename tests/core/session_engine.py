"""An engine whose pool lets outgrown checkpoints go first, and that knows which these are."""

from collections import Counter

from kvquarry_core.eviction import Superseding
from kvquarry_core.ids import BlockHash, ClassId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import Row
from tests.core.books import FindableRow
from tests.core.fake_engine import PIN_CAP
from tests.core.memory import Key
from tests.core.retaining_engine import RetainingEngine


class SessionEngine(RetainingEngine):
    """Counts by itself who hit which checkpoint."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.pool = Pool(plan, eviction=Superseding(), observer=self, pin_cap=PIN_CAP)
        self.num_outgrown = 0
        self._num_hits: Counter[FindableRow] = Counter()
        self._resumed: dict[tuple[Handle, KindId], BlockHash] = {}
        self._outgrown: set[FindableRow] = set()

    def _note_admission(self, request: AdmitRequest, text: str, answer: Admission) -> None:
        super()._note_admission(request, text, answer)
        if not answer.hit_tokens:
            return
        for kind in self._state_kinds():
            name = request.hashes[answer.hit_tokens // self.plan.hash_tokens - 1]
            entry = self.books.findable[kind, name][0]
            self._num_hits[entry] += 1
            self._outgrown.discard(entry)
            self._resumed[request.handle, kind] = name

    def note_commit(self, handle: Handle, kind: KindId, block_hash: BlockHash, row: Row) -> None:
        """See :meth:`FakeEngine.note_commit`."""
        super().note_commit(handle, kind, block_hash, row)
        name = self._resumed.pop((handle, kind), None) if kind in self._state_kinds() else None
        for entry in self.books.findable.get((kind, name), [])[:1] if name else ():
            if self._num_hits[entry] == 1:
                self._outgrown.add(entry)
                self.num_outgrown += 1

    def least_missed(self, handle: Handle) -> set[Key]:
        """And checkpoints in use that were outgrown."""
        return super().least_missed(handle) | self._outgrown_keys() - self.cached()

    def outgrown(self) -> set[Key]:
        """See :meth:`FakeEngine.outgrown`."""
        return self._outgrown_keys() & self.cached()

    def check(self) -> None:
        """Of states, exactly what was outgrown and is not in use goes first."""
        super().check()
        for kind in self._state_kinds():
            owner = self.plan.class_of_kind(kind)
            assert self._first_of(owner) == {
                key for key in self._outgrown_keys() & self.cached() if key[0] == owner
            }

    def _first_of(self, owner: ClassId) -> set[Key]:
        held = self.pool.store.cache
        return {(owner, one) for one in held.by_age(owner) if not held.stamp_of(owner, one)}

    def _outgrown_keys(self) -> set[Key]:
        there = {entry for rows in self.books.findable.values() for entry in rows}
        return {key for entry in self._outgrown & there for key in entry.keys}

    def _state_kinds(self) -> list[KindId]:
        return [
            KindId(kind)
            for kind in range(len(self.plan.kinds))
            if self.plan.spec_of_kind(KindId(kind)).kind is GroupKind.RECURRENT_STATE
        ]
