"""Content that requests have in common: what one builds on, and what it leaves for others."""

from collections.abc import Sequence

from kvquarry_core.block_store import BlockStore
from kvquarry_core.coordinator import Hit
from kvquarry_core.evacuation import Evacuator
from kvquarry_core.ids import BlockId, GroupId, KindId
from kvquarry_core.lease import Lease
from kvquarry_core.messages import FullRows
from kvquarry_core.plan import GroupKind
from kvquarry_core.requests import Places, RequestRecord
from kvquarry_core.resumption import Resumption
from kvquarry_core.supersession import Supersession


class Sharing:
    """Touches hits and commits full rows."""

    def __init__(
        self,
        store: BlockStore,
        lease: Lease,
        evacuator: Evacuator,
        supersession: Supersession,
        resumption: Resumption,
    ) -> None:
        self._plan = store.plan
        self._store = store
        self._lease = lease
        self._evacuator = evacuator
        self._supersession = supersession
        self._resumption = resumption

    def is_written(self, hit: Hit) -> bool:
        """Whether a hit's content is there already; states of this step are not."""
        return all(
            self._store.contents.are_written(KindId(index), kind_hit.rows)
            for index, kind_hit in enumerate(hit.kinds)
        )

    def touch(self, hit: Hit, record: RequestRecord) -> None:
        """Reference all blocks of a hit for a request that holds nothing yet."""
        for index, kind_hit in enumerate(hit.kinds):
            kind = KindId(index)
            size_class = self._plan.class_of_kind(kind)
            columns = self._store.index.columns(kind, kind_hit.rows)
            for group, column in zip(self._plan.kinds[kind], columns, strict=False):
                self._store.touch(size_class, column)
                self._evacuator.hold_still(size_class, column)
                record.held[group] += column
                record.settled[group] = len(column)
                record.last_slab[size_class] = self._store.slabs.slab_of(size_class, column[-1])
        self._supersession.note_hit(record, hit)
        self._resumption.note_hit(record, hit)

    def commit(self, record: RequestRecord, rows: FullRows, places: Places) -> None:
        """Make rows findable that were checked to be the request's, or leased, and full."""
        members = self._plan.kinds[rows.kind]
        for member, (group, place) in enumerate(zip(members, places, strict=True)):
            if place is None:
                self._take_over(record, group, rows.blocks[member :: len(members)])
                record.settled[group] = len(record.held[group])
            else:
                # Of rows committed together those further back may have come first.
                end = place + len(rows.hashes)
                record.settled[group] = max(record.settled[group], end)
        contents = self._store.contents
        if self._plan.spec_of_kind(rows.kind).kind is GroupKind.RECURRENT_STATE:
            depth_tokens = self._committed_tokens(record)
            contents.commit_states(rows.kind, rows.hashes, rows.blocks, depth_tokens)
            self._evacuator.hold_still(self._plan.class_of_kind(rows.kind), rows.blocks)
            self._supersession.note_commit(record, rows.kind)
            self._resumption.note_commit(record, rows.kind, rows.hashes[-1])
        else:
            contents.commit(rows.kind, rows.hashes, rows.blocks)

    def _take_over(self, record: RequestRecord, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Those of ``blocks`` that were leased become the request's own."""
        leased = [block for block in blocks if block in self._lease.blocks[group]]
        self._lease.hand_over(group, leased)
        record.held[group] += leased

    def _committed_tokens(self, record: RequestRecord) -> int:
        """Tokens of a request whose content is final, as its attention shows; 0 without any.

        A draft model's last block is not committed yet when the checkpoint at its end is.
        """
        return max(
            (
                (settled + spec.num_hashes_beyond) * spec.block_tokens
                for settled, spec in zip(record.settled, self._plan.groups, strict=True)
                if spec.kind is GroupKind.FULL_ATTENTION
            ),
            default=0,
        )
