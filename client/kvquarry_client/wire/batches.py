"""Batches of operations, to the wire."""

from collections.abc import Sequence

from kvquarry.v1alpha import pool_pb2
from kvquarry_client.wire.bearing import Bearing, Gathered, Manners, Texts
from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.messages import (
    AdmitRequest,
    AheadRequest,
    Ask,
    FullRows,
    GrowRequest,
    LeaseRequest,
    PinRequest,
)

#: A request that is over gives up many blocks at once, but nobody waits for them: who needs memory
#: sends this along. So a few of them wait for each other, and an idle engine sends one at once.
_WEIGHT_OF_FREE = 8


#: A column that is so long is joined no more: the service takes four times as many rows.
_LONG_COLUMN = 16_384
#: Sorts that are joined although operations of the other stand in between.
_JOINED_ACROSS = frozenset({"take", "commit"})


class BatchBuilder:
    """Gathers operations in order; neighbours of one sort share the columns of one message.

    A scheduler takes blocks and commits full ones for one request after the other. That comes to
    the same for all requests together, if what is committed was taken before: so all Takes of a
    step share their columns, and all Commits::

        take a, commit a, take b, commit b   ->   take a b, commit a b
    """

    def __init__(self, manners: Manners) -> None:
        self._names_bear = manners.moves_blocks
        self._commits_bear = manners.moves_blocks or manners.hears_evictions
        self._start_anew()

    def _start_anew(self) -> None:
        self._message = pool_pb2.AttachRequest()
        # Filled where they stand: a message that is put into another one is copied.
        self._operations = self._message.batch.operations
        # By sort, the operation that later ones of that sort may join.
        self._open: dict[str, int] = {}
        self._bearing = Bearing()
        #: How much work the batch is for the service: blocks, roughly.
        self.weight = 0

    def __len__(self) -> int:
        """Operations, as the service counts them."""
        return len(self._operations)

    def finish(self) -> Gathered:
        """The batch so far, without a number; the builder starts anew."""
        gathered = Gathered(self._message, self._bearing)
        self._start_anew()
        return gathered

    def leave_behind(self, texts: Texts) -> Gathered | None:
        """Take out the last operations, those that no answer about these texts depends on."""
        num_before = self._bearing.num_before(texts)
        if num_before == len(self):
            return None
        if not num_before:
            return self.finish()
        behind = pool_pb2.AttachRequest()
        behind.batch.operations.extend(self._operations[num_before:])
        del self._operations[num_before:]
        self._open.clear()
        self._bearing, of_behind = self._bearing.cut(num_before)
        return Gathered(behind, of_behind)

    def empty_slots(self, by_kind: Sequence[int]) -> None:
        """Say of the whole batch how many slots are empty."""
        self._message.batch.empty_slot_counts.extend(by_kind)

    def ask(self, ask: Ask) -> None:
        """Add whatever has to be answered."""
        match ask:
            case AdmitRequest():
                self._admit(ask)
            case GrowRequest():
                grow = self._new().grow
                grow.handle = ask.handle
                grow.block_counts.extend(ask.num_blocks)
            case LeaseRequest():
                self._new().lease.block_counts.extend(ask.num_blocks)
            case AheadRequest():
                ahead = self._new().grant_ahead
                ahead.handles.extend(ask.handles)
                ahead.block_counts.extend(ask.num_blocks)
            case PinRequest():
                pin = self._new().pin
                pin.pin_id = ask.pin_id
                pin.hashes.extend(ask.hashes)
                pin.ttl_seconds = ask.ttl_s

    def unpin(self, pin_id: str) -> None:
        """Add a pin to an Unpin."""
        self._last("unpin").unpin.pin_ids.append(pin_id)

    def reset_cache(self) -> None:
        """Add a ResetCache."""
        self._new().reset_cache.SetInParent()

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """Add a row to a Take."""
        columns = self._last("take").take
        columns.handles.append(handle)
        columns.groups.append(group)
        columns.block_counts.append(num_blocks)
        self.weight += 1

    def settle(self, handle: Handle) -> None:
        """Add a request to a Settle; it must not give back what is asked for after it."""
        self._last("settle").settle.handles.append(handle)
        self._bears()

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add blocks to a GiveBack."""
        columns = self._last("give_back").give_back
        columns.groups.append(group)
        columns.block_counts.append(len(blocks))
        columns.blocks.extend(blocks)
        if self._names_bear:
            self._bears()

    def commit(self, rows: FullRows) -> None:
        """Add a run of rows to a Commit."""
        columns = self._last("commit").commit
        columns.handles.append(rows.handle)
        columns.kinds.append(rows.kind)
        columns.row_counts.append(len(rows.hashes))
        if rows.is_remembered and rows.first is not None:
            columns.places.append(rows.first + 1)
        else:
            columns.places.append(0)
            columns.hashes.extend(rows.hashes)
        columns.blocks.extend(rows.blocks)
        self.weight += len(rows.hashes)
        if self._commits_bear:
            self._bearing.note(self._open["commit"])
        else:
            self._bearing.note(self._open["commit"], rows.hashes[0], rows.first)
        if len(columns.blocks) >= _LONG_COLUMN:
            self._open.pop("commit", None)

    def drop(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add blocks to a Drop."""
        columns = self._last("drop").drop
        columns.handles.append(handle)
        columns.groups.append(group)
        columns.block_counts.append(len(blocks))
        columns.blocks.extend(blocks)
        if self._names_bear:
            self._bears()

    def free(self, handle: Handle) -> None:
        """Add a request to a Free."""
        self._last("free").free.handles.append(handle)
        self.weight += _WEIGHT_OF_FREE

    def begin_step(self) -> None:
        """Add a BeginStep."""
        self._new().begin_step.SetInParent()
        if self._names_bear:
            self._bears()

    def compare_books(self, revision: int, digest: bytes) -> None:
        """Add a CompareBooks; what is asked for after it is not in these books."""
        books = self._new().compare_books
        books.revision = revision
        books.digest = digest
        self._bears()

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Add a Forget."""
        forget = self._new().forget
        forget.group = group
        forget.blocks.extend(blocks)
        self._bears()

    def _admit(self, request: AdmitRequest) -> None:
        admit = self._new().admit
        admit.handle = request.handle
        admit.hashes.extend(request.hashes)
        admit.token_count = request.num_tokens
        admit.max_hit_tokens = request.max_hit_tokens
        admit.max_grant_tokens = request.max_grant_tokens
        admit.lookahead_tokens = request.lookahead_tokens
        admit.must_fit_tokens = request.must_fit_tokens
        admit.keep_free_block_counts.extend(request.keep_free_blocks)
        admit.states_are_leased = request.states_are_leased
        admit.in_flight_tokens = request.in_flight_tokens
        admit.encoder_tokens = request.encoder_tokens
        admit.priority = request.priority

    def _bears(self) -> None:
        """All answers depend on the last operation."""
        self._bearing.note(len(self) - 1)

    def _last(self, sort: str) -> pool_pb2.Operation:
        """The operation of this sort that may be joined, else a new one."""
        index = self._open.get(sort)
        if index is not None and (sort != "commit" or index > self._open.get("take", -1)):
            return self._operations[index]
        if sort not in _JOINED_ACROSS or not self._open.keys() <= _JOINED_ACROSS:
            self._open.clear()
        self._open[sort] = len(self)
        return self._operations.add()

    def _new(self) -> pool_pb2.Operation:
        """A new operation that no later one joins, nor any that stands before it."""
        self._open.clear()
        return self._operations.add()
