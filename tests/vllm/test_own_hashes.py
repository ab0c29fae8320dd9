"""What routers hear of a draft model's blocks, which the pool finds under longer names."""

from __future__ import annotations

import pytest

from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.plan import make_plan
from kvquarry_vllm.own_hashes import OwnHashes
from tests.core.small_pools import attention, draft, hashes, states

#: Attention and drafts, as kinds are numbered.
PLAN = make_plan([attention(16), draft(32), states(48)], 100_000)
TARGET, DRAFT = KindId(0), KindId(1)


@pytest.fixture
def own_hashes() -> OwnHashes:
    """Of two prompts that part behind their second block."""
    known = OwnHashes(PLAN)
    for prompt in ("abx", "aby", "abx"):
        names = hashes(prompt)
        known.note(TARGET, names, names)
        known.note(DRAFT, names[1:], names[:-1])
    return known


def test_a_block_is_gone_with_the_last_of_its_names(own_hashes: OwnHashes) -> None:
    assert own_hashes.forget(DRAFT, BlockHash(b"abx")) is None
    assert own_hashes.forget(DRAFT, BlockHash(b"aby")) == b"ab"
    assert own_hashes.forget(DRAFT, BlockHash(b"ab")) == b"a"
    assert len(own_hashes) == 0


def test_what_is_no_draft_has_one_name(own_hashes: OwnHashes) -> None:
    assert own_hashes.forget(TARGET, BlockHash(b"abx")) == b"abx"
    assert len(own_hashes) == 3


def test_a_name_that_is_forgotten_twice_is_told_once(own_hashes: OwnHashes) -> None:
    assert own_hashes.forget(DRAFT, BlockHash(b"ab")) == b"a"
    assert own_hashes.forget(DRAFT, BlockHash(b"ab")) is None


def test_nothing_is_remembered_of_a_cache_that_was_cleared(own_hashes: OwnHashes) -> None:
    own_hashes.clear()
    assert len(own_hashes) == 0
    assert own_hashes.forget(DRAFT, BlockHash(b"abx")) is None
