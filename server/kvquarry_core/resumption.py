"""Where the next turn of a request would resume: that checkpoint is as young as the request.

A checkpoint is dropped as soon as the running state has left it, attention only when the request
ends. By the time of its last use alone it would go long before the attention that nobody can use
without it::

    attention    |==============================|  in use until the request ends
    checkpoint             s                       in use while it is read
                           ^ goes first, and what is left of it and before it is of no use
"""

from kvquarry_core.block_store import BlockStore
from kvquarry_core.coordinator import Hit
from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.plan import GroupKind
from kvquarry_core.requests import RequestRecord


class Resumption:
    """Keeps the deepest checkpoint of each running request young.

    In a pool of blocks of one size it does nothing: its order is that of stock vLLM.
    """

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        plan = store.plan
        num_sizes = len({size_class.stride_bytes for size_class in plan.classes})
        self._kinds = [
            kind
            for kind in map(KindId, range(len(plan.kinds)))
            if num_sizes > 1 and plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE
        ]

    def note_hit(self, record: RequestRecord, hit: Hit) -> None:
        """A request begins where a hit ends."""
        for kind in self._kinds:
            size_class = self._store.plan.class_of_kind(kind)
            for first in hit.kinds[kind].rows[-1:]:
                block_hash = self._store.contents.hash_of(size_class, first)
                assert block_hash is not None, f"block {first} was hit without a hash"
                record.resumable[kind] = block_hash

    def note_commit(self, record: RequestRecord, kind: KindId, block_hash: BlockHash) -> None:
        """A request left a checkpoint; the next turn resumes there."""
        if kind in self._kinds:
            record.resumable[kind] = block_hash

    def keep_young(self, record: RequestRecord) -> None:
        """The request goes on, or ends only now, and so does what its next turn needs."""
        store = self._store
        for kind, block_hash in record.resumable.items():
            first = store.index.find(kind, block_hash)
            if first is not None:
                store.cache.renew(store.plan.class_of_kind(kind), store.index.row(kind, first))
