"""Names that came with an admission need not come again."""

import pytest

from kvquarry_core.errors import Reason
from kvquarry_core.ids import BlockHash, BlockId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest
from kvquarry_core.pool import Pool
from kvquarry_server.application import apply_operation
from kvquarry_server.operations import Commit, Free, Take
from tests.server.doubles import ready_attachment
from tests.server.test_application import FIRST, NOBODY, SECOND, assert_refused, row

ONE, TWO, DEAF = Handle(1), Handle(2), Handle(3)
ATTENTION, STATES = KindId(0), KindId(1)
NAMES = [BlockHash(b"name %d" % number) for number in range(5)]
#: Tokens of a block of attention, as long as a hash unit.
BLOCK = 4


@pytest.fixture
def pool() -> Pool:
    """One request with five hashes and blocks for three; one that was looked up under no hash."""
    pool = ready_attachment().pool
    for handle, hashes in ((ONE, NAMES), (DEAF, [])):
        admit = AdmitRequest(handle, hashes, 5 * BLOCK, 4 * BLOCK, 3 * BLOCK)
        assert isinstance(apply_operation(pool, admit), Admission)
        apply_operation(pool, Take([handle] * 2, [FIRST, SECOND], [3, 3]))
    return pool


def rows_of(pool: Pool, handle: Handle, num_rows: int) -> list[BlockId]:
    return [block for place in range(num_rows) for block in row(pool, handle, place)]


def found(pool: Pool) -> list[BlockHash]:
    """What is findable in attention, in the order of the request's text."""
    known = {one.block_hash for one in pool.store.index.commitments(ATTENTION)}
    return [name for name in NAMES if name in known]


def test_rows_take_the_names_that_stand_in_their_places(pool: Pool) -> None:
    apply_operation(pool, Commit([ONE], [ATTENTION], [3], [], rows_of(pool, ONE, 3), [1]))
    assert found(pool) == NAMES[:3]
    again = AdmitRequest(TWO, NAMES[:3], 4 * BLOCK, 3 * BLOCK, BLOCK)
    answer = apply_operation(pool, again)
    assert isinstance(answer, Admission)
    assert answer.longest_tokens == 2 * BLOCK  # where a state could be


def test_runs_with_and_without_places_share_columns(pool: Pool) -> None:
    blocks = [*row(pool, ONE, 0), *row(pool, DEAF, 0), *row(pool, ONE, 1)]
    said = [BlockHash(b"said")]
    commit = Commit([ONE, DEAF, ONE], [ATTENTION] * 3, [1, 1, 1], said, blocks, [1, 0, 2])
    apply_operation(pool, commit)
    assert found(pool) == NAMES[:2]
    assert pool.store.index.find(ATTENTION, said[0]) == row(pool, DEAF, 0)[0]


def test_names_follow_at_the_distance_of_blocks(pool: Pool) -> None:
    """A state sums up two hash units, so its name is the second one's."""
    spec = pool.plan.spec_of_kind(STATES)
    assert spec.block_tokens == 2 * BLOCK
    group = pool.plan.kinds[STATES][0]
    apply_operation(pool, Take([ONE], [group], [1]))
    [state] = pool.requests[ONE].held[group]
    apply_operation(pool, Commit([ONE], [STATES], [1], [], [state], [2]))
    assert pool.store.index.find(STATES, NAMES[1]) == state


@pytest.mark.parametrize(
    ("handle", "num_rows", "hashes", "places", "reason"),
    [
        (ONE, 3, [], [2], Reason.INVALID_ARGUMENT),  # the fourth has no granted block
        (ONE, 1, [], [4], Reason.INVALID_ARGUMENT),
        (ONE, 1, [], [(1 << 32) - 1], Reason.INVALID_ARGUMENT),
        (DEAF, 1, [], [1], Reason.INVALID_ARGUMENT),  # admitted with none
        (NOBODY, 1, [], [1], Reason.UNKNOWN_REQUEST),
        (ONE, 1, NAMES[:1], [1], Reason.INVALID_ARGUMENT),  # a name too many
        (ONE, 1, [], [0], Reason.INVALID_ARGUMENT),  # and one too few
        (ONE, 1, [], [1, 1], Reason.INVALID_ARGUMENT),
    ],
)
def test_places_where_nothing_is_remembered_are_mistakes(
    pool: Pool,
    handle: Handle,
    num_rows: int,
    hashes: list[BlockHash],
    places: list[int],
    reason: Reason,
) -> None:
    blocks = rows_of(pool, ONE, num_rows)
    assert_refused(pool, Commit([handle], [ATTENTION], [num_rows], hashes, blocks, places), reason)


def test_no_more_is_remembered_than_blocks_were_granted_for(pool: Pool) -> None:
    assert list(pool.requests[ONE].names.hashes) == NAMES[:3]
    apply_operation(pool, Free([ONE]))
    assert ONE not in pool.requests


def test_nothing_is_remembered_of_what_was_hit(pool: Pool) -> None:
    """However many requests hit one prefix: they share its blocks."""
    group = pool.plan.kinds[STATES][0]
    apply_operation(pool, Take([ONE], [group], [1]))
    blocks = [*rows_of(pool, ONE, 2), *pool.requests[ONE].held[group]]
    apply_operation(pool, Commit([ONE, ONE], [ATTENTION, STATES], [2, 1], [], blocks, [1, 2]))
    apply_operation(pool, Free([ONE]))
    pool.begin_step()
    answer = apply_operation(pool, AdmitRequest(TWO, NAMES, 5 * BLOCK, 4 * BLOCK, BLOCK))
    assert isinstance(answer, Admission)
    assert answer.hit_tokens == 2 * BLOCK
    assert list(pool.requests[TWO].names.hashes) == NAMES[2:3]
    apply_operation(pool, Take([TWO] * 2, [FIRST, SECOND], [1, 1]))
    third = row(pool, TWO, 2)
    assert_refused(pool, Commit([TWO], [ATTENTION], [1], [], third, [2]), Reason.INVALID_ARGUMENT)
    apply_operation(pool, Commit([TWO], [ATTENTION], [1], [], third, [3]))
    assert found(pool) == NAMES[:3]


def test_a_name_of_any_length_is_not_kept() -> None:
    pool = ready_attachment().pool
    admit = AdmitRequest(ONE, [BlockHash(b"x" * 65)], 2 * BLOCK, BLOCK, 2 * BLOCK)
    apply_operation(pool, admit)
    apply_operation(pool, Take([ONE] * 2, [FIRST, SECOND], [1, 1]))
    commit = Commit([ONE], [ATTENTION], [1], [], rows_of(pool, ONE, 1), [1])
    assert_refused(pool, commit, Reason.INVALID_ARGUMENT)
