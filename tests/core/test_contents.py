"""What is known of a block's content goes where the content goes, and ends with it."""

from kvquarry_core.contents import Contents
from kvquarry_core.ids import BlockHash, BlockId, ClassId
from kvquarry_core.prefix_index import PrefixIndex
from tests.core.small_pools import ATTENTION, STATES, two_classes

LARGE = ClassId(1)
ONE, OTHER = BlockId(3), BlockId(5)


def no_contents() -> Contents:
    """Of a pool of attention and states."""
    return Contents(two_classes(num_slabs=8), PrefixIndex(num_kinds=2))


def commit(contents: Contents, block: BlockId) -> None:
    """A state that sums up four tokens, under a hash of its own."""
    contents.commit_states(STATES, [BlockHash(b"%d" % block)], [block], depth_tokens=4)


def forget(contents: Contents, block: BlockId) -> None:
    """Whatever a block holds is evicted."""
    assert contents.forget(LARGE, [block])


def test_a_state_is_not_written_until_the_next_step_begins() -> None:
    contents = no_contents()
    commit(contents, ONE)
    assert not contents.are_written(STATES, [ONE])
    assert contents.are_written(STATES, [OTHER])
    assert contents.are_written(ATTENTION, [ONE])
    contents.begin_step()
    assert contents.are_written(STATES, [ONE])


def test_nobody_waits_for_a_state_that_was_forgotten() -> None:
    """However long a step lasts, nothing is remembered of it but what can be found."""
    contents = no_contents()
    commit(contents, ONE)
    commit(contents, OTHER)
    forget(contents, ONE)
    assert contents.are_written(STATES, [ONE])
    assert not contents.are_written(STATES, [OTHER])


def test_a_checkpoint_is_written_that_moved_to_where_a_state_of_this_step_was() -> None:
    """Its bytes are there: whoever waited for the next step would wait for nothing."""
    contents = no_contents()
    commit(contents, ONE)
    contents.begin_step()
    commit(contents, OTHER)
    forget(contents, OTHER)
    contents.move(LARGE, ONE, OTHER)
    assert contents.are_written(STATES, [OTHER])


def test_what_is_known_of_a_state_moves_with_it() -> None:
    contents = no_contents()
    commit(contents, ONE)
    contents.move(LARGE, ONE, OTHER)
    assert contents.is_hashed(LARGE, OTHER)
    assert not contents.is_hashed(LARGE, ONE)
    assert not contents.are_written(STATES, [OTHER])
    assert contents.are_written(STATES, [ONE])
    assert (contents.depth_tokens(LARGE, OTHER), contents.depth_tokens(LARGE, ONE)) == (4, 0)
