"""What people read in a terminal."""

from dataclasses import replace

import pytest

from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.messages import AdmitRequest
from kvquarry_core.policies import PolicyNames
from kvquarry_core.work import Work
from kvquarry_server.conversion.statuses import plain, status_to_wire
from kvquarry_server.operations import Batch, Free, Take
from kvquarry_server.registry import Policy, Registry
from kvquarry_server.status import Boot, status_of
from kvquarry_server.status_table import status_table
from tests.server.doubles import FakeClock, FakeStream, open_request, ready_attachment


def table(registry: Registry) -> str:
    status = status_of(Boot("b00t", "1.0", 0.0), registry)
    return status_table(plain(status_to_wire(status)))


def test_an_empty_service_says_so() -> None:
    assert table(Registry(Policy(), FakeClock())) == "kvquarry 1.0, up 16 min, 0 pools, boot b00t"


def test_a_pool_shows_its_engine_workers_memory_tokens_and_blocks() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    one = Handle(1)
    admit = AdmitRequest(one, (), 8, 0, 8)
    attachment.apply(Batch(1, [admit, Take([one], [GroupId(0)], [1])]))
    pool_id = attachment.identity.pool_id
    registry.attach(pool_id, 1, FakeStream())
    assert table(registry).splitlines() == [
        "kvquarry 1.0, up 16 min, 1 pool, boot b00t",
        "",
        "engine engine, incarnation 1, attached",
        f"  pool      {pool_id}  tiny",
        "  policies  placement affinity, eviction lru, relocation off, retention engine",
        "  workers   1 of 1 registered (0: cpu:0)",
        "  memory    1.0 KiB used of 5.5 KiB, 9 of 12 slabs unassigned",
        "  tokens    8 looked up: 0 hit (0.0%), 8 missed",
        "  requests  1 now, 1 admitted, 0 times made to wait for blocks",
        "",
        "  class  block  groups  free  active  cached  granted  evicted",
        "      0  128 B       2     0       1       0        3        0",
        "      1  512 B       1     0       0       0        1        0",
    ]


def test_a_pool_whose_engine_tells_shows_how_much_of_it_is_written() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    one = Handle(1)
    admit, take = AdmitRequest(one, (), 8, 0, 8), Take([one], [GroupId(0)], [2])
    attachment.apply(Batch(1, [admit, take], empty_slots=[1, 0]))
    lines = table(registry).splitlines()
    assert "  written   192 B (18.8% of what is used), 2 token slots are empty" in lines
    attachment.apply(Batch(2, [Free([one])], empty_slots=[0, 0]))
    assert "  written   0 B, 0 token slots are empty" in table(registry).splitlines()


def test_a_pool_without_a_stream_shows_when_it_goes() -> None:
    registry = Registry(Policy(attach_s=90), FakeClock())
    registry.open(open_request(num_workers=2))
    text = table(registry)
    assert "not attached, dropped in 90 s" in text
    assert "0 of 2 registered\n" in text


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        (Work(5.94e9, 163_840), "5.94 GFLOP a token + 164 kFLOP per earlier token"),
        (Work(3_499_999, 2_048), "3.50 MFLOP a token + 2.05 kFLOP per earlier token"),
        (Work(999_700_000, 0.0), "1.00 GFLOP a token + 0.00 FLOP per earlier token"),
        (Work(12.34, 4e16), "12.3 FLOP a token + 40000 TFLOP per earlier token"),
    ],
)
def test_a_pool_whose_engine_told_its_model_s_work_shows_it(work: Work, shown: str) -> None:
    registry = Registry(Policy(), FakeClock())
    registry.open(replace(open_request(), work=work))
    assert f"  work      {shown}" in table(registry).splitlines()


def test_tries_that_found_no_blocks_are_no_refused_requests() -> None:
    registry = Registry(Policy(), FakeClock())
    attachment = ready_attachment(registry)
    for number, times in ((1, "1 time"), (2, "2 times")):
        larger_than_the_pool = AdmitRequest(Handle(1), (), 8, 0, 8, must_fit_tokens=1 << 20)
        attachment.apply(Batch(number, [larger_than_the_pool]))
        line = f"  requests  0 now, 0 admitted, {times} made to wait for blocks"
        assert line in table(registry).splitlines()


def test_a_pool_whose_blocks_may_move_shows_how_many_did() -> None:
    registry = Registry(Policy(), FakeClock())
    names = PolicyNames("", "", "evacuate", "every-4096")
    attachment = registry.open(replace(open_request(), policies=names))
    lines = table(registry).splitlines()
    assert (
        "  policies  placement affinity, eviction lru, relocation evacuate, retention " in lines[4]
    )
    assert lines[4].endswith("retention every-4096")
    assert "  moves     0 blocks so far, 0 B" in lines
    attachment.pool.store.num_moves[:] = [8, 1]
    assert "  moves     9 blocks so far, 1.5 KiB" in table(registry).splitlines()
    registry.open(open_request())
    assert "moves" not in table(registry)
