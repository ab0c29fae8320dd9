"""Whatever arrives over the wire, the caller gets a typed answer and the service lives on."""

from collections.abc import Iterator

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvquarry.v1alpha import plan_pb2, pool_pb2
from kvquarry_server.errors import STATUS_OF
from tests.contract.running_service import RunningService, connected, sound_service
from tests.contract.wire_engine import (
    admit,
    open_engine,
    open_request,
    ready_engine,
    refused,
)
from tests.strategies import examples

REASONS = {reason.value for reason in STATUS_OF}
UINT32, UINT64 = (1 << 32) - 1, (1 << 64) - 1

small = st.one_of(st.integers(0, 5), st.integers(0, 60), st.sampled_from([UINT32, 1 << 31]))
column = st.lists(small, max_size=4)
handles = st.one_of(st.integers(0, 4), st.just(UINT64))
handle_column = st.lists(handles, max_size=4)
hashes = st.lists(st.binary(max_size=3), max_size=5)


pin_ids = st.sampled_from(["one", "other", "", "a b", "x" * 129])
seconds = st.one_of(st.floats(), st.sampled_from([0.0, 1e-3, 60.0, 1e9]))
#: Every operation and every field of it.
FIELDS: dict[str, dict[str, st.SearchStrategy[object]]] = {
    "admit": {
        "handle": handles,
        "hashes": hashes,
        "token_count": small,
        "max_hit_tokens": small,
        "max_grant_tokens": small,
        "lookahead_tokens": small,
        "must_fit_tokens": small,
        "keep_free_block_counts": column,
        "states_are_leased": st.booleans(),
        "in_flight_tokens": small,
        "encoder_tokens": small,
        "priority": small,
    },
    "grow": {"handle": handles, "block_counts": column},
    "lease": {"block_counts": column},
    "grant_ahead": {"handles": handle_column, "block_counts": column},
    "give_back": {"groups": column, "block_counts": column, "blocks": column},
    "take": {"handles": handle_column, "groups": column, "block_counts": column},
    "settle": {"handles": handle_column},
    "commit": {
        "handles": handle_column,
        "kinds": column,
        "row_counts": column,
        "hashes": hashes,
        "blocks": column,
        "places": column,
    },
    "drop": {
        "handles": handle_column,
        "groups": column,
        "block_counts": column,
        "blocks": column,
    },
    "free": {"handles": handle_column},
    "forget": {"group": small, "blocks": column},
    "begin_step": {},
    "compare_books": {"revision": small, "digest": st.binary()},
    "reset_cache": {},
    "pin": {"pin_id": pin_ids, "hashes": hashes, "ttl_seconds": seconds},
    "unpin": {"pin_ids": st.lists(pin_ids, max_size=3)},
}


def operations() -> st.SearchStrategy[pool_pb2.Operation]:
    """Any operation with any numbers, and some that only look like one."""
    assert set(FIELDS) == {field.name for field in pool_pb2.Operation.DESCRIPTOR.fields}
    sensible = st.builds(admit, handles, st.integers(1, 60))
    return st.one_of(*map(operation, FIELDS), sensible, st.just(pool_pb2.Operation()))


def operation(name: str) -> st.SearchStrategy[pool_pb2.Operation]:
    """One kind of operation with anything in its fields."""
    message = type(getattr(pool_pb2.Operation(), name))
    assert set(FIELDS[name]) == {field.name for field in message.DESCRIPTOR.fields}
    contents = st.builds(message, **FIELDS[name])
    return contents.map(lambda content: pool_pb2.Operation(**{name: content}))


sizes = st.sampled_from([0, 1, 16, 64, 4096, UINT32])
open_requests = st.builds(
    pool_pb2.OpenPoolRequest,
    engine=st.sampled_from(["fuzz", "", "a b", "x" * 254, "\x1b[31m"]),
    groups=st.lists(
        st.builds(
            plan_pb2.GroupSpec,
            kind=st.sampled_from([0, 1, 2, 99]),
            block_tokens=sizes,
            page_bytes=st.one_of(sizes, st.integers(0, UINT64)),
            layer_count=st.sampled_from([0, 1, 2, UINT32]),
            speculative_block_count=st.sampled_from([0, 1, UINT32]),
            alignment_bytes=sizes,
        ),
        max_size=4,
    ),
    pool_size_bytes=st.one_of(st.integers(0, 1 << 20), st.integers(0, UINT64)),
    worker_count=st.sampled_from([0, 1, UINT32]),
    model=st.sampled_from(["", "tiny", "\n", "x" * 2000]),
    work=st.none()
    | st.builds(pool_pb2.Work, token_flops=st.floats(), token_pair_flops=st.floats()),
)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[RunningService]:
    with sound_service("--log-level", "warning") as service:
        yield service


@pytest.fixture(scope="module")
def fuzzed_channel(fuzzed: RunningService) -> Iterator[grpc.Channel]:
    with connected(fuzzed.target) as channel:
        yield channel


@settings(examples(200), suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(operations(), max_size=6), min_size=1, max_size=8))
def test_any_batch_is_answered_and_no_block_is_lost(
    fuzzed_channel: grpc.Channel, batches: list[list[pool_pb2.Operation]]
) -> None:
    engine, stream = ready_engine(fuzzed_channel, "victim")
    for batch in batches:
        result = stream.exchange(*batch)
        assert result.error.reason in REASONS | {""}
        assert_no_block_is_lost(engine.opened.plan, result.usage)


def assert_no_block_is_lost(plan: plan_pb2.Plan, usage: pool_pb2.PoolUsage) -> None:
    """Blocks of all states make up the slabs of their class, and those make up the pool."""
    num_slabs = usage.unassigned_slab_count
    for geometry, blocks in zip(plan.size_classes, usage.size_classes, strict=True):
        carved = (
            blocks.free_block_count
            + blocks.cached_block_count
            + blocks.active_block_count
            + blocks.granted_block_count
            + blocks.null_block_count
        )
        assert carved % geometry.blocks_per_slab == 0
        num_slabs += carved // geometry.blocks_per_slab
    assert num_slabs == plan.slab_count
    assert 0 <= usage.used_size_bytes <= usage.usable_size_bytes < plan.pool_size_bytes


@settings(examples(200), suppress_health_check=list(HealthCheck))
@given(request=open_requests)
def test_any_request_for_a_pool_is_answered(
    fuzzed_channel: grpc.Channel, request: pool_pb2.OpenPoolRequest
) -> None:
    try:
        engine = open_engine(fuzzed_channel, request)
    except grpc.RpcError as error:
        failure = refused(error)
        assert failure.reason in REASONS, failure
        assert failure.message
    else:
        engine.close()


@settings(examples(100), suppress_health_check=list(HealthCheck))
@given(noise=st.binary(max_size=200))
def test_bytes_that_are_no_message_end_the_call_and_nothing_else(
    fuzzed_channel: grpc.Channel, noise: bytes
) -> None:
    for method in ("PoolService/OpenPool", "WorkerService/RegisterWorker"):
        call = fuzzed_channel.unary_unary(f"/kvquarry.v1alpha.{method}", bytes, bytes)
        with pytest.raises(grpc.RpcError):
            call(b"\xff" + noise, timeout=10)


def test_the_longest_error_still_reaches_the_client(channel: grpc.Channel, name: str) -> None:
    request = open_request(name)
    request.engine = "\N{PILE OF POO}" * 5000
    with pytest.raises(grpc.RpcError) as failure:
        open_engine(channel, request)
    assert refused(failure.value).reason == "INVALID_ARGUMENT"


def test_the_longest_refusal_of_a_policy_still_reaches_the_client(
    channel: grpc.Channel, name: str
) -> None:
    """Beside its text it carries the names that there are."""
    request = open_request(name)
    request.policies.placement = "\N{PILE OF POO}" * 5000
    with pytest.raises(grpc.RpcError) as failure:
        open_engine(channel, request)
    assert refused(failure.value).reason == "UNKNOWN_POLICY"


def test_a_stream_that_says_no_message_ends_and_the_pool_stays(
    channel: grpc.Channel, name: str
) -> None:
    engine, stream = ready_engine(channel, name)
    stream.exchange(admit(1, 4))
    raw = channel.stream_stream("/kvquarry.v1alpha.PoolService/Attach", bytes, bytes)
    with pytest.raises(grpc.RpcError) as failure:
        list(raw(iter([b"\xff\xff\xff"]), timeout=10))
    assert refused(failure.value).reason == "INVALID_ARGUMENT"
    assert stream.exchange(admit(2, 4)).answers[0].HasField("admission")
    assert engine.attach().exchange(admit(3, 4)).number == 3
