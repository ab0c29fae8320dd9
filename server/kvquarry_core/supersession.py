"""Notes who resumes at which checkpoint, and lets those go first that are outgrown."""

from kvquarry_core.block_store import BlockStore
from kvquarry_core.coordinator import Hit
from kvquarry_core.eviction import Eviction, Superseding
from kvquarry_core.ids import KindId
from kvquarry_core.plan import GroupKind
from kvquarry_core.requests import RequestRecord


class Supersession:
    """What a :class:`~kvquarry_core.eviction.Superseding` policy asks for; else nothing."""

    def __init__(self, store: BlockStore, eviction: Eviction) -> None:
        self._store = store
        plan = store.plan
        self._kinds = [
            kind
            for kind in map(KindId, range(len(plan.kinds)))
            if isinstance(eviction, Superseding)
            and plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE
        ]

    def note_hit(self, record: RequestRecord, hit: Hit) -> None:
        """A request resumes where a hit ends."""
        plan = self._store.plan
        for kind in self._kinds:
            for first in hit.kinds[kind].rows:
                size_class = plan.class_of_kind(kind)
                block_hash = self._store.contents.hash_of(size_class, first)
                assert block_hash is not None, f"block {first} was hit without a hash"
                record.resumed[kind] = block_hash
                self._store.sessions.note_hit(size_class, self._store.index.row(kind, first))

    def note_commit(self, record: RequestRecord, kind: KindId) -> None:
        """A request left a checkpoint, which lies beyond the one it resumed at."""
        block_hash = record.resumed.pop(kind, None)
        if block_hash is None:
            return
        store, size_class = self._store, self._store.plan.class_of_kind(kind)
        first = store.index.find(kind, block_hash)
        if first is not None and store.sessions.was_hit_once(size_class, first):
            store.let_go_first(size_class, store.index.row(kind, first))
