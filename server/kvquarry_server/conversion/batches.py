"""Batches of operations, from the wire."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import (
    AdmitRequest,
    AheadRequest,
    GrowRequest,
    LeaseRequest,
    PinRequest,
)
from kvquarry_server import limits
from kvquarry_server.operations import (
    Batch,
    BeginStep,
    Commit,
    CompareBooks,
    Drop,
    Forget,
    Free,
    GiveBack,
    Operation,
    ResetCache,
    Settle,
    Take,
    Unpin,
    Unreadable,
)

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer


def batch_from_wire(message: pool_pb2.Batch) -> Batch:
    """A batch whose operations are read when they are asked for.

    Whether they make sense is the pool's to say.

    Raises:
        UsageError: They are too many; reading one with too many rows raises it, too.
    """
    limits.check_num_operations(len(message.operations))
    return Batch(
        message.number,
        map(_operation, message.operations),
        message.quiet,
        _column(message.empty_slot_counts),
    )


def _operation(message: pool_pb2.Operation) -> Operation:
    name = message.WhichOneof("operation")
    return Unreadable() if name is None else _READERS[name](message)


def _admit(message: pool_pb2.Operation) -> AdmitRequest:
    admit = message.admit
    return AdmitRequest(
        handle=Handle(admit.handle),
        hashes=cast("list[BlockHash]", admit.hashes[:]),
        num_tokens=admit.token_count,
        max_hit_tokens=admit.max_hit_tokens,
        max_grant_tokens=admit.max_grant_tokens,
        lookahead_tokens=admit.lookahead_tokens,
        must_fit_tokens=admit.must_fit_tokens,
        keep_free_blocks=list(admit.keep_free_block_counts),
        states_are_leased=admit.states_are_leased,
        in_flight_tokens=admit.in_flight_tokens,
        encoder_tokens=admit.encoder_tokens,
        priority=admit.priority,
    )


def _lease(message: pool_pb2.Operation) -> LeaseRequest:
    return LeaseRequest(list(message.lease.block_counts))


def _ahead(message: pool_pb2.Operation) -> AheadRequest:
    ahead = message.grant_ahead
    return AheadRequest(cast("list[Handle]", _column(ahead.handles)), _column(ahead.block_counts))


def _give_back(message: pool_pb2.Operation) -> GiveBack:
    give_back = message.give_back
    return GiveBack(
        cast("list[GroupId]", _column(give_back.groups)),
        _column(give_back.block_counts),
        cast("list[BlockId]", _column(give_back.blocks)),
    )


def _grow(message: pool_pb2.Operation) -> GrowRequest:
    return GrowRequest(Handle(message.grow.handle), list(message.grow.block_counts))


def _take(message: pool_pb2.Operation) -> Take:
    take = message.take
    return Take(
        cast("list[Handle]", _column(take.handles)),
        cast("list[GroupId]", _column(take.groups)),
        _column(take.block_counts),
    )


def _settle(message: pool_pb2.Operation) -> Settle:
    return Settle(cast("list[Handle]", _column(message.settle.handles)))


def _commit(message: pool_pb2.Operation) -> Commit:
    commit = message.commit
    return Commit(
        cast("list[Handle]", _column(commit.handles)),
        cast("list[KindId]", _column(commit.kinds)),
        _column(commit.row_counts),
        cast("list[BlockHash]", _column(commit.hashes)),
        cast("list[BlockId]", _column(commit.blocks)),
        _column(commit.places),
    )


def _drop(message: pool_pb2.Operation) -> Drop:
    drop = message.drop
    return Drop(
        cast("list[Handle]", _column(drop.handles)),
        cast("list[GroupId]", _column(drop.groups)),
        _column(drop.block_counts),
        cast("list[BlockId]", _column(drop.blocks)),
    )


def _free(message: pool_pb2.Operation) -> Free:
    return Free(cast("list[Handle]", _column(message.free.handles)))


def _forget(message: pool_pb2.Operation) -> Forget:
    forget = message.forget
    return Forget(GroupId(forget.group), cast("list[BlockId]", _column(forget.blocks)))


def _pin(message: pool_pb2.Operation) -> PinRequest:
    pin = message.pin
    return PinRequest(pin.pin_id, cast("list[BlockHash]", list(pin.hashes)), pin.ttl_seconds)


def _unpin(message: pool_pb2.Operation) -> Unpin:
    return Unpin(list(message.unpin.pin_ids))


def _compare_books(message: pool_pb2.Operation) -> CompareBooks:
    return CompareBooks(message.compare_books.revision, message.compare_books.digest)


def _column(values: "RepeatedScalarFieldContainer[Any]") -> list[Any]:
    """One column of an operation.

    Raises:
        UsageError: It is too long.
    """
    limits.check_num_rows(len(values))
    return values[:]


# By the name in the oneof; test_every_operation_of_the_wire_is_read holds that none is missing.
_READERS: dict[str, Callable[[pool_pb2.Operation], Operation]] = {
    "admit": _admit,
    "grow": _grow,
    "lease": _lease,
    "grant_ahead": _ahead,
    "give_back": _give_back,
    "take": _take,
    "settle": _settle,
    "commit": _commit,
    "drop": _drop,
    "free": _free,
    "begin_step": lambda _: BeginStep(),
    "forget": _forget,
    "compare_books": _compare_books,
    "reset_cache": lambda _: ResetCache(),
    "pin": _pin,
    "unpin": _unpin,
}
