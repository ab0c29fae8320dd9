"""Small inputs that made other services lose memory or serve the wrong bytes (C18, C21)."""

from dataclasses import replace

import pytest

from kvquarry_core.ids import BlockHash, GroupId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest
from kvquarry_core.plan import GroupSpec
from kvquarry_core.usage import usage_of
from kvquarry_server.attachment import Attachment
from kvquarry_server.faults import StaleIncarnation, UnknownPool
from kvquarry_server.operations import Batch, BeginStep, Commit, Free, Take
from kvquarry_server.registry import Policy, Registry
from tests.server.doubles import (
    ATTENTION,
    GROUPS,
    STATES,
    FakeClock,
    FakeStream,
    open_request,
    ready_attachment,
    worker,
)

ONE = Handle(1)
PROMPT = (BlockHash(b"0-4"), BlockHash(b"4-8"))
LEASE_S = 10


def admit(handle: Handle) -> AdmitRequest:
    """Eight tokens of the prompt and one more."""
    return AdmitRequest(handle, PROMPT, 9, max_hit_tokens=8, max_grant_tokens=9)


def apply(attachment: Attachment, number: int, *operations: object) -> Admission | None:
    """A batch; what its admission is answered."""
    outcome = attachment.apply(Batch(number, list(operations)))  # type: ignore[arg-type]
    assert outcome.error is None
    [answer] = outcome.answers or [None]
    assert answer is None or isinstance(answer, Admission)
    return answer


def test_c18_blocks_that_nobody_comes_back_for_are_free_when_the_lease_ends() -> None:
    clock = FakeClock()
    registry = Registry(Policy(lease_s=LEASE_S), clock)
    attachment = ready_attachment(registry)
    pool_id, stream = attachment.identity.pool_id, FakeStream()
    registry.attach(pool_id, 1, stream)
    apply(attachment, 1, admit(ONE), Take([ONE], [GroupId(0)], [3]))
    assert usage_of(attachment.pool).used_bytes > 0
    registry.detach(attachment, stream)
    clock.advance(LEASE_S)
    registry.drop_lapsed()
    assert registry.attachments == []
    with pytest.raises(UnknownPool):
        registry.attach(pool_id, 1, FakeStream())


def test_c18_a_completion_that_comes_late_is_refused() -> None:
    """The next life holds nothing of the one before, and takes no word of it."""
    registry = Registry(Policy(lease_s=LEASE_S), FakeClock())
    first = ready_attachment(registry)
    registry.attach(first.identity.pool_id, 1, FakeStream())
    apply(first, 1, admit(ONE), Take([ONE], [GroupId(0)], [3]))
    second = ready_attachment(registry)
    assert usage_of(second.pool).used_bytes == 0
    with pytest.raises(StaleIncarnation):
        registry.attach(first.identity.pool_id, 1, FakeStream())
    assert usage_of(second.pool).used_bytes == 0


def cached_prompt(registry: Registry) -> Attachment:
    """An engine that has computed the prompt."""
    attachment = ready_attachment(registry)
    grant = apply(attachment, 1, admit(ONE))
    assert grant is not None
    rows = [grant.grant.blocks[group] for group in range(3)]
    columns = [block for pair in zip(*rows[:2], strict=True) for block in pair][:4]
    apply(
        attachment,
        2,
        Take([ONE] * 3, [GroupId(0), GroupId(1), GroupId(2)], [len(row) for row in rows]),
        Commit([ONE], [KindId(0)], [2], list(PROMPT), columns),
        Commit([ONE], [KindId(1)], [1], [PROMPT[1]], rows[2][:1]),
        Free([ONE]),
        BeginStep(),
    )
    return attachment


@pytest.mark.parametrize(
    "groups",
    [
        (replace(ATTENTION, page_bytes=128), replace(ATTENTION, page_bytes=128), STATES),
        (ATTENTION, ATTENTION, replace(STATES, page_bytes=216)),
        (STATES, ATTENTION, ATTENTION),
        GROUPS,
    ],
    ids=["wider attention", "larger states", "another order", "the same"],
)
def test_c21_a_new_layout_finds_nothing_under_the_old_keys(groups: tuple[GroupSpec, ...]) -> None:
    """Content belongs to one life of one engine; the same hashes in another layout are a miss."""
    registry = Registry(Policy(), FakeClock())
    before = cached_prompt(registry)
    found = apply(before, 3, admit(Handle(2)))
    assert found is not None
    assert found.hit_tokens == 8, "in its own life the prompt is found"
    after = registry.open(open_request(groups=groups))
    after.roster.register(worker(after.pool.plan))
    missed = apply(after, 1, admit(ONE))
    assert missed is not None
    assert missed.hit_tokens == 0
