"""What is kept for latecomers is bounded."""

from kvquarry_core.ids import BlockId
from kvquarry_core.messages import Grant
from kvquarry_core.usage import PoolUsage
from kvquarry_server.memory import AnswerLog, RecentlySet
from kvquarry_server.outcomes import BatchOutcome


def outcome(number: int, num_blocks: int = 0) -> BatchOutcome:
    grant = Grant(blocks=([BlockId(1)] * num_blocks,), dirty=([],))
    return BatchOutcome(number, 0, (grant,), None, (), PoolUsage((), 0, 0, 0))


def test_the_key_set_longest_ago_is_forgotten_first() -> None:
    recent: RecentlySet[str, int] = RecentlySet(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        recent.set(key, value)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (3, None, 4)


def test_the_oldest_answers_go_when_there_are_too_many() -> None:
    log = AnswerLog(most_answers=3)
    for number in range(1, 6):
        log.keep(outcome(number))
    assert [log.find(number) is not None for number in range(1, 6)] == [False] * 2 + [True] * 3


def test_large_answers_push_out_others_but_the_last_one_stays() -> None:
    log = AnswerLog(most_answers=3, most_entries=10)
    for number, num_blocks in ((1, 4), (2, 4), (3, 4), (4, 50)):
        log.keep(outcome(number, num_blocks))
        if number == 3:
            assert log.find(1) is None
            assert log.find(2) is not None
    assert [log.find(number) is not None for number in range(1, 5)] == [False] * 3 + [True]
    log.keep(outcome(5, 10))
    assert log.find(4) is None
    assert log.find(5) is not None
