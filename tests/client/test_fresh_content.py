"""Content is fresh in the step in which it was committed, and in the next."""

from collections.abc import Sequence

from kvquarry_client.fresh_content import FreshContent
from kvquarry_core.ids import BlockHash


def text(words: str) -> Sequence[BlockHash]:
    """Chained hashes."""
    return [BlockHash(words[: end + 1].encode()) for end in range(len(words))]


def test_whoever_has_any_of_it_has_the_first() -> None:
    fresh = FreshContent()
    fresh.note(text("abc")[1:])
    assert fresh.is_in(text("abx"), since=0)
    assert not fresh.is_in(text("axc"), since=0)
    assert not fresh.is_in((), since=0)


def test_it_is_fresh_for_two_steps() -> None:
    fresh = FreshContent()
    fresh.note(text("a"))
    fresh.begin_step()
    fresh.note(text("b"))
    assert fresh.is_in(text("a"), since=0)
    fresh.begin_step()
    assert not fresh.is_in(text("a"), since=0)
    assert fresh.is_in(text("b"), since=0)


def test_whoever_was_looked_up_afterwards_has_hit_it() -> None:
    fresh = FreshContent()
    fresh.note(text("a"))
    assert not fresh.is_in(text("a"), since=fresh.num_runs)
    fresh.note(text("b"))
    assert not fresh.is_in(text("a"), since=1)
    assert fresh.is_in(text("b"), since=1)
    fresh.begin_step()
    fresh.note(text("a"))
    assert fresh.is_in(text("a"), since=2)


def test_no_more_than_two_steps_are_remembered() -> None:
    fresh = FreshContent()
    for step in range(100):
        fresh.note(text(f"{step:03}"))
        fresh.note(text(f"{step:03}/state"))
        fresh.begin_step()
    assert len(fresh) <= 4
