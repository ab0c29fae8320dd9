"""What a count of empty slots says of a pool, in slots and in bytes."""

import pytest

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.slot_use import SlotUse, check_empty_slots, slot_use_of
from kvquarry_core.usage import usage_of

#: Two members of one kind, and states: two size classes.
ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, 4, 64, 2)
STATES = GroupSpec(GroupKind.RECURRENT_STATE, 8, 200, 1)
PLAN = make_plan((ATTENTION, ATTENTION, STATES), 2 * 256 * 12)
ATTENTION_BYTES, STATE_BYTES = 128, 512


def pool_with_ten_tokens() -> Pool:
    """Three rows of attention and one state are granted, two rows and the state are spent."""
    pool = Pool(PLAN)
    assert isinstance(pool.admit(AdmitRequest(Handle(1), (), 10, 0, 10)), Admission)
    for group, num_blocks in enumerate((2, 2, 1)):
        pool.take(Handle(1), GroupId(group), num_blocks)
    return pool


def test_what_is_granted_and_not_spent_is_not_written() -> None:
    pool = pool_with_ten_tokens()
    spent_bytes = 2 * 2 * ATTENTION_BYTES + STATE_BYTES
    assert usage_of(pool).used_bytes == spent_bytes + 2 * ATTENTION_BYTES
    assert slot_use_of(pool, [0, 0]) == SlotUse((0, 0), spent_bytes)


def test_an_empty_slot_is_its_share_of_a_block_in_every_group_of_its_kind() -> None:
    pool = pool_with_ten_tokens()
    spent_bytes = 2 * 2 * ATTENTION_BYTES + STATE_BYTES
    assert slot_use_of(pool, [3, 0]) == SlotUse((6, 0), spent_bytes - 2 * ATTENTION_BYTES * 3 // 4)
    assert slot_use_of(pool, [0, 8]) == SlotUse((0, 8), spent_bytes - STATE_BYTES)


def test_a_leased_state_is_written_unless_it_is_told_to_be_empty() -> None:
    pool = Pool(PLAN)
    assert isinstance(pool.lease_blocks([0, 0, 2]), Grant)
    assert slot_use_of(pool, [0, 0]).written_bytes == 2 * STATE_BYTES
    assert slot_use_of(pool, [0, 8]) == SlotUse((0, 8), STATE_BYTES)
    assert slot_use_of(pool, [0, 16]).written_bytes == 0


def test_a_count_that_is_older_than_the_usage_leaves_no_less_than_nothing() -> None:
    assert slot_use_of(Pool(PLAN), [3, 8]) == SlotUse((6, 8), 0)


def largest(plan: Plan) -> list[int]:
    """Every row that there could be, all empty."""
    attention, states = (one.num_usable_blocks for one in plan.classes)
    return [attention // 2 * 4, states * 8]


def test_as_many_slots_may_be_empty_as_there_are() -> None:
    check_empty_slots(PLAN, [0, 0])
    check_empty_slots(PLAN, largest(PLAN))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("beyond", [-1, 1], ids=["below nothing", "above all"])
def test_no_more_slots_are_empty_than_there_are(kind: int, beyond: int) -> None:
    counts = largest(PLAN) if beyond > 0 else [0, 0]
    counts[kind] += beyond
    with pytest.raises(UsageError, match=f"kind {kind} has 0 to") as refused:
        check_empty_slots(PLAN, counts)
    assert refused.value.reason is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize("counts", [[0], [0, 0, 0]])
def test_every_kind_has_one_count(counts: list[int]) -> None:
    with pytest.raises(UsageError, match="2 kinds of groups, not"):
        check_empty_slots(PLAN, counts)
