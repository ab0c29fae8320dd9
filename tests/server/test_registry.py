"""Engines have one pool at a time, lives follow each other, and leases lapse."""

import logging
import math
from dataclasses import replace

import pytest

from kvquarry_core.errors import PlanError, Reason, UsageError
from kvquarry_core.integrity import check_integrity
from kvquarry_core.policies import NO_CHOICE, PolicyNames
from kvquarry_core.work import TOKENS, Work
from kvquarry_server.attachment import Attachment
from kvquarry_server.faults import (
    Draining,
    PoolBroken,
    StaleIncarnation,
    Superseded,
    TooManyBlocks,
    TooManyPools,
    UnknownPool,
)
from kvquarry_server.limits import Limits
from kvquarry_server.registry import Policy, Registry
from tests.server.doubles import FakeClock, FakeStream, open_request


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(Policy(lease_s=10, attach_s=900), clock)


def attach(registry: Registry, attachment: Attachment) -> FakeStream:
    stream = FakeStream()
    identity = attachment.identity
    assert registry.attach(identity.pool_id, identity.incarnation, stream) is attachment
    return stream


def is_known(registry: Registry, attachment: Attachment) -> bool:
    """Whether a pool is still there, after looking for lapsed leases."""
    registry.drop_lapsed()
    return attachment in registry.attachments


def ended_by(stream: FakeStream) -> list[type[Exception]]:
    return [type(error) for error in stream.errors]


def test_opening_again_starts_the_next_life_and_fences_the_one_before(registry: Registry) -> None:
    first = registry.open(open_request())
    stream = attach(registry, first)
    second = registry.open(open_request())
    assert (first.identity.incarnation, second.identity.incarnation) == (1, 2)
    assert ended_by(stream) == [StaleIncarnation]
    assert registry.attachments == [second]
    for call in (registry.find, registry.close):
        with pytest.raises(StaleIncarnation):
            call(first.identity.pool_id, 1)
    with pytest.raises(StaleIncarnation):
        registry.find(second.identity.pool_id, 1)
    with pytest.raises(StaleIncarnation):
        registry.attach(first.identity.pool_id, 1, FakeStream())


def test_incarnations_go_on_after_a_pool_is_gone(registry: Registry) -> None:
    first = registry.open(open_request())
    registry.close(first.identity.pool_id, 1)
    assert registry.open(open_request()).identity.incarnation == 2
    with pytest.raises(StaleIncarnation):
        registry.find(first.identity.pool_id, 1)


def test_engines_have_lives_of_their_own(registry: Registry) -> None:
    one, other = registry.open(open_request("one")), registry.open(open_request("other"))
    registry.open(open_request("one"))
    assert registry.find(other.identity.pool_id, 1) is other
    assert other.pool is not one.pool


def test_a_request_that_fails_leaves_the_earlier_life_alone(registry: Registry) -> None:
    first = registry.open(open_request())
    stream = attach(registry, first)
    with pytest.raises(PlanError):
        registry.open(open_request(pool_bytes=1))
    assert registry.find(first.identity.pool_id, 1) is first
    assert stream.errors == []


def test_a_pool_that_cannot_be_made_leaves_the_earlier_life_alone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = registry.open(open_request())
    stream = attach(registry, first)
    with monkeypatch.context() as patch:
        patch.setattr("kvquarry_server.registry.Attachment", out_of_memory)
        with pytest.raises(MemoryError):
            registry.open(open_request())
    assert registry.find(first.identity.pool_id, 1) is first
    assert stream.errors == []
    assert registry.open(open_request()).identity.incarnation == 2


def out_of_memory(*_: object) -> None:
    raise MemoryError


def test_the_next_life_is_told_that_the_earlier_one_still_lived(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    first = registry.open(open_request())
    attach(registry, first)
    assert registry.open(open_request()).identity.earlier_was_attached
    assert "loses its pool to another of its name" in caplog.text
    with pytest.raises(StaleIncarnation, match="give each a KVQUARRY_ENGINE of its own"):
        registry.find(first.identity.pool_id, 1)


def test_a_restart_after_a_life_that_was_cut_off_is_nothing_special(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    first = registry.open(open_request())
    registry.detach(first, attach(registry, first))
    assert not registry.open(open_request()).identity.earlier_was_attached
    assert "another of its name" not in caplog.text


@pytest.mark.parametrize(
    ("chosen_here", "chosen_there", "times_told"),
    [("evacuate", "off", 1), ("evacuate", "", 0), ("off", "off", 0), ("off", "", 0)],
)
def test_an_engine_that_declines_to_move_what_the_service_would_is_named(
    chosen_here: str,
    chosen_there: str,
    times_told: int,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry(Policy(pool_policies=PolicyNames(relocation=chosen_here)), clock)
    with caplog.at_level(logging.INFO):
        opened = registry.open(
            replace(open_request("left"), policies=replace(NO_CHOICE, relocation=chosen_there))
        )
    assert opened.policies.relocation == (chosen_there or chosen_here)
    told = (
        "engine left keeps its blocks where they are: set KVQUARRY_RELOCATION there to evacuate "
        "to let them move"
    )
    assert caplog.messages.count(told) == caplog.text.count("keeps its blocks") == times_told


def test_an_unknown_pool_is_named_as_such(registry: Registry) -> None:
    with pytest.raises(UnknownPool):
        registry.find("nowhere", 1)


def test_a_closed_pool_is_gone_at_once_and_its_stream_ends(registry: Registry) -> None:
    attachment = registry.open(open_request())
    stream = attach(registry, attachment)
    registry.close(attachment.identity.pool_id, 1)
    assert ended_by(stream) == [UnknownPool]
    with pytest.raises(UnknownPool):
        registry.close(attachment.identity.pool_id, 1)
    registry.detach(attachment, stream)
    assert registry.attachments == []


def test_a_pool_never_attached_waits_for_its_first_stream(
    registry: Registry, clock: FakeClock
) -> None:
    attachment = registry.open(open_request())
    clock.advance(899)
    assert is_known(registry, attachment)
    clock.advance(1)
    assert not is_known(registry, attachment)


def test_a_pool_outlives_its_stream_by_its_lease(registry: Registry, clock: FakeClock) -> None:
    attachment = registry.open(open_request())
    stream = attach(registry, attachment)
    clock.advance(100_000)
    assert is_known(registry, attachment)
    registry.detach(attachment, stream)
    assert attachment.lease.remaining_s(now=clock()) == 10
    clock.advance(9)
    assert is_known(registry, attachment)
    clock.advance(1)
    assert not is_known(registry, attachment)
    with pytest.raises(UnknownPool):
        registry.find(attachment.identity.pool_id, 1)


def test_a_new_stream_within_the_lease_keeps_the_pool(registry: Registry, clock: FakeClock) -> None:
    attachment = registry.open(open_request())
    registry.detach(attachment, attach(registry, attachment))
    clock.advance(9)
    attach(registry, attachment)
    clock.advance(100_000)
    assert is_known(registry, attachment)
    assert attachment.lease.remaining_s(now=clock()) == 0


def test_a_newer_stream_supersedes_and_the_older_one_holds_nothing(
    registry: Registry, clock: FakeClock
) -> None:
    attachment = registry.open(open_request())
    older, newer = attach(registry, attachment), attach(registry, attachment)
    assert ended_by(older) == [Superseded]
    registry.detach(attachment, older)
    clock.advance(100_000)
    assert is_known(registry, attachment)
    assert registry.num_streams == 1
    registry.detach(attachment, newer)
    clock.advance(10)
    assert not is_known(registry, attachment)


def test_draining_opens_no_pool_and_keeps_those_there_are(registry: Registry) -> None:
    attachment = registry.open(open_request())
    registry.drain()
    with pytest.raises(Draining):
        registry.open(open_request("late"))
    stream = attach(registry, attachment)
    assert stream.errors == []
    registry.end_streams(Draining("over"))
    assert ended_by(stream) == [Draining]


def test_a_condemned_pool_is_gone_and_says_why(registry: Registry) -> None:
    attachment = registry.open(open_request())
    stream = attach(registry, attachment)
    registry.condemn(attachment)
    assert ended_by(stream) == [PoolBroken]
    assert registry.attachments == []


def test_pools_are_bounded_in_number(clock: FakeClock) -> None:
    registry = Registry(Policy(limits=Limits(num_pools=2)), clock)
    for engine in ("one", "two", "two"):
        registry.open(open_request(engine))
    with pytest.raises(TooManyPools):
        registry.open(open_request("three"))


def test_blocks_are_bounded_over_all_pools(clock: FakeClock) -> None:
    registry = Registry(Policy(limits=Limits(num_blocks=150)), clock)
    one = registry.open(open_request("one"))
    assert sum(size_class.num_blocks for size_class in one.pool.plan.classes) == 60
    registry.open(open_request("two"))
    with pytest.raises(TooManyBlocks):
        registry.open(open_request("three"))
    registry.open(open_request("two"))


@pytest.mark.parametrize("engine", ["", "x" * 254, "two words", "tab\t", "zero\x00", "line\n"])
def test_a_name_that_is_no_label_is_refused(registry: Registry, engine: str) -> None:
    with pytest.raises(UsageError, match="1 to 253 printable characters") as refusal:
        registry.open(open_request(engine))
    assert refusal.value.reason is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize("num_workers", [0, 1 << 31])
def test_a_pool_nobody_holds_is_refused(registry: Registry, num_workers: int) -> None:
    with pytest.raises(UsageError, match="workers"):
        registry.open(open_request(num_workers=num_workers))


def opened_with(clock: FakeClock, service: PolicyNames, engine: PolicyNames) -> PolicyNames:
    registry = Registry(Policy(pool_policies=service), clock)
    attachment = registry.open(replace(open_request(), policies=engine))
    check_integrity(attachment.pool)
    return attachment.policies


def test_an_engine_that_chooses_nothing_gets_the_services_policies(clock: FakeClock) -> None:
    service = PolicyNames("first-fit", "slab-aware", "evacuate", "dense")
    assert opened_with(clock, service, NO_CHOICE) == service
    assert opened_with(clock, service, PolicyNames("", "lru", "off", "")) == PolicyNames(
        "first-fit", "lru", "off", "dense"
    )


@pytest.mark.parametrize(
    "names", [["x" if kind == unknown else "" for kind in range(4)] for unknown in range(4)]
)
def test_an_unknown_policy_is_refused_and_the_earlier_life_goes_on(
    clock: FakeClock, names: list[str]
) -> None:
    registry = Registry(Policy(), clock)
    earlier = registry.open(open_request())
    with pytest.raises(UsageError, match="there are") as caught:
        registry.open(replace(open_request(), policies=PolicyNames(*names)))
    assert caught.value.reason is Reason.UNKNOWN_POLICY
    assert registry.attachments == [earlier]


def test_a_pool_weighs_content_by_the_work_its_engine_told(clock: FakeClock) -> None:
    told = Registry(Policy(), clock).open(replace(open_request(), work=Work(8.0, 2.0)))
    assert (told.work, told.pool.store.cache.work) == (Work(8.0, 2.0), Work(8.0, 2.0))
    silent = Registry(Policy(), clock).open(open_request())
    assert (silent.work, silent.pool.store.cache.work) == (None, TOKENS)


def test_an_impossible_amount_of_work_is_refused_and_the_earlier_life_goes_on(
    clock: FakeClock,
) -> None:
    registry = Registry(Policy(), clock)
    earlier = registry.open(open_request())
    with pytest.raises(UsageError, match="token_pair_flops of nan") as caught:
        registry.open(replace(open_request(), work=Work(1.0, math.nan)))
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    assert registry.attachments == [earlier]
