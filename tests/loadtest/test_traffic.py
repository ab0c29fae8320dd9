"""Made-up requests are repeatable and begin alike."""

from itertools import islice

import pytest

from loadtest.traffic import MadeUpRequest, Traffic

HASH_TOKENS = 16


def some(seed: int, number: int = 200) -> list[MadeUpRequest]:
    return list(islice(Traffic(seed, HASH_TOKENS).requests(), number))


def test_equal_seeds_give_equal_requests() -> None:
    assert some(seed=7) == some(seed=7)
    assert some(seed=7) != some(seed=8)


@pytest.mark.parametrize("seed", range(3))
def test_every_full_block_of_a_request_has_a_hash_of_its_own(seed: int) -> None:
    for request in some(seed):
        assert len(request.hashes) == (request.prompt_tokens + request.output_tokens) // HASH_TOKENS
        assert len(set(request.hashes)) == len(request.hashes)


def test_requests_share_beginnings_and_never_a_whole_output() -> None:
    first, *others = some(seed=1)
    shared = [num_shared_blocks(first, other) for other in others]
    assert any(shared)
    assert not all(shared)
    assert max(shared) <= first.prompt_tokens // HASH_TOKENS


def test_a_hash_names_the_whole_prefix() -> None:
    requests = some(seed=1)
    for request in requests:
        num_shared = num_shared_blocks(request, requests[0])
        if request is not requests[0]:
            assert not set(request.hashes[num_shared:]) & set(requests[0].hashes)


def num_shared_blocks(one: MadeUpRequest, other: MadeUpRequest) -> int:
    pairs = zip(one.hashes, other.hashes, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(one.hashes))
