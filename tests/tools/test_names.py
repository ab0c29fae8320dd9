"""Hashes at any block size name a whole prefix, as far as the trace tells prefixes apart."""

import pytest

from kvquarry_tools.simulation.names import Names
from tests.tools.simulation.traces import request

SIZES = [16, 64, 512, 528, 1024, 1056]


@pytest.mark.parametrize("hash_tokens", SIZES)
def test_equal_hashes_are_those_of_the_common_prefix(hash_tokens: int) -> None:
    one = Names(request("abcd"), 0, hash_tokens).up_to(2048)
    other = Names(request("abce"), 1, hash_tokens).up_to(2048)
    num_equal = sum(mine == theirs for mine, theirs in zip(one, other, strict=True))
    # Three units are shared; a position in a fourth that differs counts as different.
    assert num_equal == 3 * 512 // hash_tokens
    assert one[:num_equal] == other[:num_equal]


@pytest.mark.parametrize("hash_tokens", SIZES)
def test_every_full_block_has_a_hash_of_its_own(hash_tokens: int) -> None:
    names = Names(request("abc", more_tokens=100), 0, hash_tokens).up_to(1636)
    assert len(names) == len(set(names)) == 1636 // hash_tokens


def test_output_is_nobody_elses() -> None:
    prompt = request("ab")
    one, other = Names(prompt, 0, 16), Names(prompt, 1, 16)
    assert one.at(1024) == other.at(1024)
    assert one.at(1040) != other.at(1040)
    assert one.up_to(1040)[-1] == one.at(1040)
