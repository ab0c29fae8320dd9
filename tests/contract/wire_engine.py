"""An engine's side of the wire, message by message: no client of ours in between."""

import queue
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import grpc

from kvquarry.v1alpha import (
    plan_pb2,
    pool_pb2,
    pool_pb2_grpc,
    status_pb2,
    worker_pb2,
    worker_pb2_grpc,
)

PATIENCE_S = 10.0

GROUPS = (
    plan_pb2.GroupSpec(
        kind=plan_pb2.GROUP_KIND_FULL_ATTENTION,
        block_tokens=4,
        page_bytes=64,
        layer_count=2,
        alignment_bytes=16,
    ),
    plan_pb2.GroupSpec(
        kind=plan_pb2.GROUP_KIND_RECURRENT_STATE,
        block_tokens=8,
        page_bytes=200,
        layer_count=2,
        alignment_bytes=16,
    ),
)
POOL_BYTES = 2 * 256 * 40
ATTENTION, STATES = 0, 1


@dataclass(frozen=True)
class Refused:
    """How a call failed: its status, the reason in it, and the text for people."""

    code: grpc.StatusCode
    reason: str
    message: str


def refused(error: grpc.RpcError) -> Refused:
    """The typed error in a status; no reason where gRPC itself refused."""
    found = [
        one.value for one in error.trailing_metadata() or () if one.key == "grpc-status-details-bin"
    ]
    if not found:
        return Refused(error.code(), "", error.details() or "")
    status = status_pb2.StatusDetails.FromString(found[0])
    assert status.code == error.code().value[0]
    info = status_pb2.ErrorInfo.FromString(status.details[0].value)
    return Refused(error.code(), info.reason, status.message)


class WireStream:
    """One attachment's stream."""

    def __init__(self, channel: grpc.Channel, pool_id: str, incarnation: int) -> None:
        self._outbox: queue.SimpleQueue[pool_pb2.AttachRequest | None] = queue.SimpleQueue()
        requests: Iterator[pool_pb2.AttachRequest] = iter(self._outbox.get, None)
        self.call = pool_pb2_grpc.PoolServiceStub(channel).Attach(requests, timeout=60)
        self._hello = pool_pb2.Hello(pool_id=pool_id, incarnation=incarnation)
        self._last_number = 0

    def start(self) -> pool_pb2.AttachResponse:
        """Say hello and be welcomed."""
        self.send_hello()
        welcome = self.read()
        self._last_number = welcome.welcome.last_batch_number
        return welcome

    def send_hello(self) -> None:
        self.send_raw(pool_pb2.AttachRequest(hello=self._hello))

    def send_raw(self, message: pool_pb2.AttachRequest) -> None:
        self._outbox.put(message)

    def send(
        self,
        number: int,
        operations: Iterable[pool_pb2.Operation],
        empty_slots: Iterable[int] = (),
    ) -> None:
        """Send a batch of any number."""
        batch = pool_pb2.Batch(number=number, operations=operations, empty_slot_counts=empty_slots)
        self.send_raw(pool_pb2.AttachRequest(batch=batch))

    def read(self) -> pool_pb2.AttachResponse:
        """The next response."""
        response: pool_pb2.AttachResponse = next(self.call)
        return response

    def exchange(
        self, *operations: pool_pb2.Operation, empty_slots: Iterable[int] = ()
    ) -> pool_pb2.BatchResult:
        """Send the next batch and read its result."""
        self._last_number += 1
        self.send(self._last_number, operations, empty_slots)
        result = self.read().result
        assert result.number == self._last_number
        return result

    def end(self) -> None:
        """Say that nothing more will come."""
        self._outbox.put(None)

    def failure(self) -> Refused:
        """How the service ended the stream."""
        try:
            while True:
                next(self.call)
        except StopIteration:
            raise AssertionError("the stream ended without an error") from None
        except grpc.RpcError as error:
            return refused(error)


class WireEngine:
    """One life of one engine."""

    def __init__(self, channel: grpc.Channel, opened: pool_pb2.OpenPoolResponse) -> None:
        self.opened = opened
        self._channel = channel

    def register(self, rank: int = 0, worker_count: int = 1) -> worker_pb2.RegisterWorkerResponse:
        """Register one worker whose memory is what the plan says."""
        return self.register_raw(self.registration(rank, worker_count))

    def register_raw(
        self, request: worker_pb2.RegisterWorkerRequest
    ) -> worker_pb2.RegisterWorkerResponse:
        stub = worker_pb2_grpc.WorkerServiceStub(self._channel)
        response: worker_pb2.RegisterWorkerResponse = stub.RegisterWorker(
            request, timeout=PATIENCE_S
        )
        return response

    def registration(self, rank: int, worker_count: int) -> worker_pb2.RegisterWorkerRequest:
        """What :meth:`register` sends."""
        plan = self.opened.plan
        region_bytes = plan.slab_size_bytes * plan.slab_count
        layers = [
            worker_pb2.LayerView(
                layer=f"group {group} layer {layer}",
                group=group,
                offset_bytes=layer * region_bytes,
                stride_bytes=plan.size_classes[size_class].stride_bytes,
                block_count=plan.size_classes[size_class].block_count,
            )
            for group, size_class in enumerate(plan.class_of_group)
            for layer in range(plan.groups[group].layer_count)
        ]
        return worker_pb2.RegisterWorkerRequest(
            pool_id=self.opened.pool_id,
            incarnation=self.opened.incarnation,
            rank=rank,
            worker_count=worker_count,
            device=f"cpu:{rank}",
            buffer_size_bytes=plan.pool_size_bytes,
            layers=layers,
            digest=b"digest",
        )

    def stream(self) -> WireStream:
        """A stream that has not said hello yet."""
        return WireStream(self._channel, self.opened.pool_id, self.opened.incarnation)

    def attach(self) -> WireStream:
        """A stream that was welcomed."""
        stream = self.stream()
        stream.start()
        return stream

    def stream_failure(self) -> Refused:
        """How the service refuses a stream of this life."""
        stream = self.stream()
        stream.send_hello()
        return stream.failure()

    def close(self) -> None:
        """Drop the pool."""
        request = pool_pb2.ClosePoolRequest(
            pool_id=self.opened.pool_id, incarnation=self.opened.incarnation
        )
        pool_pb2_grpc.PoolServiceStub(self._channel).ClosePool(request, timeout=PATIENCE_S)


def open_request(name: str, worker_count: int = 1) -> pool_pb2.OpenPoolRequest:
    """What an engine asks for."""
    return pool_pb2.OpenPoolRequest(
        engine=name,
        groups=GROUPS,
        pool_size_bytes=POOL_BYTES,
        worker_count=worker_count,
        model="tiny",
    )


def open_engine(channel: grpc.Channel, request: pool_pb2.OpenPoolRequest) -> WireEngine:
    """Begin an engine's next life."""
    stub = pool_pb2_grpc.PoolServiceStub(channel)
    return WireEngine(channel, stub.OpenPool(request, timeout=PATIENCE_S))


def ready_engine(channel: grpc.Channel, name: str) -> tuple[WireEngine, WireStream]:
    """An engine that has registered its worker and attached."""
    engine = open_engine(channel, open_request(name))
    engine.register()
    return engine, engine.attach()


def admit(handle: int, token_count: int, hashes: Iterable[bytes] = ()) -> pool_pb2.Operation:
    """Look up all but the last token, and grant the rest."""
    return pool_pb2.Operation(
        admit=pool_pb2.Admit(
            handle=handle,
            hashes=hashes,
            token_count=token_count,
            max_hit_tokens=token_count - 1,
            max_grant_tokens=token_count,
        )
    )


def take(handle: int, group: int, block_count: int) -> pool_pb2.Operation:
    return pool_pb2.Operation(
        take=pool_pb2.Take(handles=[handle], groups=[group], block_counts=[block_count])
    )


def commit(handle: int, kind: int, block_hash: bytes, *row: int) -> pool_pb2.Operation:
    return pool_pb2.Operation(
        commit=pool_pb2.Commit(
            handles=[handle], kinds=[kind], row_counts=[1], hashes=[block_hash], blocks=row
        )
    )


def free(*handles: int) -> pool_pb2.Operation:
    return pool_pb2.Operation(free=pool_pb2.Free(handles=handles))


def pin(pin_id: str, hashes: Iterable[bytes], ttl_seconds: float = 60) -> pool_pb2.Operation:
    return pool_pb2.Operation(
        pin=pool_pb2.Pin(pin_id=pin_id, hashes=hashes, ttl_seconds=ttl_seconds)
    )


def unpin(*pin_ids: str) -> pool_pb2.Operation:
    return pool_pb2.Operation(unpin=pool_pb2.Unpin(pin_ids=pin_ids))


def begin_step() -> pool_pb2.Operation:
    return pool_pb2.Operation(begin_step=pool_pb2.BeginStep())


def reset_cache() -> pool_pb2.Operation:
    return pool_pb2.Operation(reset_cache=pool_pb2.ResetCache())
