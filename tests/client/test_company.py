"""Who is asked for together with whom."""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_client.company import Company, num_shared
from kvquarry_client.scheduling import Waiting
from kvquarry_client.wire.batches import BatchBuilder
from kvquarry_client.wire.bearing import Manners
from kvquarry_core.ids import BlockHash, Handle
from kvquarry_core.messages import AdmitRequest
from tests.client.test_stream import LEAST_MOST_BYTES

_numbers = count()


def text(words: str) -> list[BlockHash]:
    """Chained hashes: each stands for all words up to its own."""
    return [BlockHash(words[: end + 1].encode()) for end in range(len(words))]


def waiting(words: str) -> Waiting:
    return Waiting(f"{words}/{next(_numbers)}", text(words), 4 * len(words) + 1)


def chosen(company: Company, first: str, *others: str) -> list[str]:
    line = [waiting(words) for words in others]
    return [one.request_id.split("/")[0] for one in company.of(waiting(first), line, ())]


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_texts_share_what_they_begin_with(one: str, other: str) -> None:
    naive = 0
    while one[naive : naive + 1] == other[naive : naive + 1] != "":
        naive += 1
    assert num_shared(text(one), text(other)) == naive


def test_whoever_begins_otherwise_comes_along() -> None:
    assert chosen(Company(), "abc", "bcd", "cde") == ["bcd", "cde"]


def test_whoever_shares_what_is_about_to_be_committed_waits_for_his_turn() -> None:
    """Not only what the first is about to commit, but also the others that come along."""
    assert chosen(Company(), "abc", "abd", "bcd", "bce") == ["bcd"]


def test_whoever_shares_only_what_was_found_comes_along() -> None:
    company = Company()
    company.note_found(text("sys:a"), 4)
    assert chosen(company, "sys:b", "sys:c", "sys:bc") == ["sys:c"]


def test_what_was_found_last_counts() -> None:
    company = Company()
    for num_found in (4, 2, 0):
        company.note_found(text("sys:a"), num_found)
    assert chosen(company, "sys:b", "sys:c") == []
    assert chosen(company, "sys:b", "syc") == ["syc"]


def test_prompts_shorter_than_a_block_come_along() -> None:
    assert chosen(Company(), "", "", "") == ["", ""]
    assert chosen(Company(), "abc", "") == [""]


def test_whoever_is_held_already_need_not_come() -> None:
    line = [waiting("b"), waiting("c")]
    company = Company().of(waiting("a"), line, {line[0].request_id})
    assert [*company] == line[1:]


@pytest.mark.parametrize("num_hashes", [0, 1, 10, 400, 5_000])
def test_no_message_grows_beyond_what_any_service_takes(num_hashes: int) -> None:
    line = [of_length(num_hashes) for _ in range(2_000)]
    company = [*Company().of(of_length(0), line, ())]
    builder = BatchBuilder(Manners())
    for number, one in enumerate(company):
        handle, tokens = Handle(2**40 + number), one.num_tokens
        builder.ask(
            AdmitRequest(handle, one.hashes, tokens, tokens, tokens, tokens, tokens, [9, 9])
        )
    assert builder.finish().message.ByteSize() < LEAST_MOST_BYTES
    assert bool(company) == (num_hashes < 1_000)


def of_length(num_hashes: int) -> Waiting:
    number = next(_numbers)
    hashes = [BlockHash(f"{number}/{place}".encode().ljust(32)) for place in range(num_hashes)]
    return Waiting(f"{number}", hashes, 16 * num_hashes + 1)


def test_memory_of_beginnings_is_bounded() -> None:
    company = Company()
    beginnings: Sequence[str] = [chr(ord("一") + place) for place in range(3_000)]
    for beginning in beginnings:
        company.note_found(text(beginning), 1)
    assert chosen(company, beginnings[-1] + "a", beginnings[-1] + "b")
    assert not chosen(company, beginnings[0] + "a", beginnings[0] + "b")
