"""Small inputs that made other systems of this kind fail, with the right answers.

C01 to C05 are whole engines' (``tests/client/test_hit_cases.py``). C05 (drafts), C06 (counters),
C07 and C08 (hits), C12 (slabs), C16 (never fits), C17 (the gate's promise) and C20 (sole owner)
stand beside the laws they belong to; C10 and C15 (figures) among the tools' tests, C15 through a
service, too (``tests/integration/test_slot_use.py``), C18 (leases) and C21 (layouts) among the
service's.
"""

import itertools

import pytest

from kvquarry_core.ids import BlockHash, ClassId, GroupId, Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, Refusal
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of
from tests.core.small_pools import (
    ATTENTION,
    STATES,
    admit,
    attention,
    cache,
    commit_all,
    grow,
    hashes,
    refused,
    request,
    states,
    take_all,
    two_classes,
)

GIB = 2**30


def test_c09_a_short_prompt_takes_its_states_and_one_small_block() -> None:
    """GLM-5.3-Flash sizes, 20 GiB, prompts of 12 tokens: at least 111 fit, 89 in a uniform pool."""
    latent = GroupSpec(GroupKind.FULL_ATTENTION, 16, 16 * 1024, 11)
    state = GroupSpec(GroupKind.RECURRENT_STATE, 16, 4_341_760, 11)
    pool = Pool(make_plan([latent, *[state] * 4], 20 * GIB))
    for handle in itertools.count():
        if isinstance(pool.admit(request(handle, "x" * 12, must_fit_tokens=12)), Refusal):
            break
    assert len(pool.requests) >= 111


def test_c11_more_requests_than_states_are_refused_and_the_pool_lives() -> None:
    pool = Pool(make_plan([attention(16), states(4096)], 4096 * 64))
    answers = [pool.admit(request(handle, "x")) for handle in range(100)]
    num_admitted = sum(isinstance(answer, Admission) for answer in answers)
    assert num_admitted == 62, "one slab of 64 has the null blocks, one the attention blocks"
    assert all(isinstance(answer, Refusal) for answer in answers[num_admitted:])
    check_integrity(pool)
    pool.free(Handle(0))
    assert isinstance(pool.admit(request(100, "x")), Admission)


def test_c13_pressure_on_states_evicts_attention() -> None:
    """States are needed, all of the memory is cached attention: nothing fails, slabs change."""
    pool = Pool(two_classes(num_slabs=4))
    admit(pool, 1, "q")
    pool.settle(Handle(1))
    grow(pool, 1, [12, 0])
    for name, block in zip(hashes("zyxwvutsrqpo"), take_all(pool, 1)[0], strict=True):
        pool.commit(Handle(1), ATTENTION, name, (block,))
        pool.drop(Handle(1), GroupId(0), block)
    assert usage_of(pool).unassigned_slabs == 0
    assert pool.store.cache.num_cached(ClassId(0)) == 12
    assert len(grow(pool, 1, [0, 4]).blocks[1]) == 4
    assert pool.store.slabs.num_class_changes[0][1] == 4
    check_integrity(pool)


def test_c13_pressure_on_attention_evicts_states() -> None:
    pool = Pool(two_classes(num_slabs=4))
    for handle, prompt in enumerate("abc"):
        cache(pool, handle, prompt)
    answer = admit(pool, 9, "zyxwvuts")
    assert len(answer.grant.blocks[0]) == 8
    check_integrity(pool)


def test_c14_with_all_states_referenced_a_checkpoint_is_refused_as_a_value() -> None:
    """Caching is best effort: the request goes on without the checkpoint, nothing asserts."""
    pool = Pool(two_classes(num_slabs=4))
    admit(pool, 1, "abc")
    take_all(pool, 1)
    grow(pool, 1, [0, 2])
    take_all(pool, 1)
    for _ in range(2):
        answer = refused(pool.grow(Handle(1), [0, 1]))
        assert answer.available_blocks[1] == 0
    commit_all(pool, 1, "abc")
    check_integrity(pool)
    pool.free(Handle(1))
    pool.begin_step()
    assert admit(pool, 2, "abcd").hit_tokens == 3


EXITS = {
    "before anything was spent": (),
    "after some attention was spent": ((0, 1),),
    "after states were spent": ((1, 1), (2, 1)),
    "after everything was spent": ((0, 2), (1, 1), (2, 1)),
}


@pytest.mark.parametrize("spent", EXITS.values(), ids=EXITS)
@pytest.mark.parametrize("prompt", ["abcde", "vwxyz"])
def test_c19_every_exit_between_lookup_and_allocation_leaks_nothing(
    spent: tuple[tuple[int, int], ...], prompt: str
) -> None:
    """With a hit of three blocks and without one."""
    pool = Pool(two_classes(num_slabs=12, num_state_groups=2))
    cache(pool, 1, "abc")
    before = usage_of(pool)
    admit(pool, 2, prompt)
    for group, num_blocks in spent:
        pool.take(Handle(2), GroupId(group), num_blocks)
    pool.settle(Handle(2))
    check_integrity(pool)
    pool.free(Handle(2))
    assert usage_of(pool) == before
    check_integrity(pool)


def test_c19_an_admission_repeated_many_times_leaks_nothing() -> None:
    """The head of the queue is looked up again in every step while it cannot be scheduled."""
    pool = Pool(two_classes(num_slabs=6))
    cache(pool, 0, "abc")
    before = usage_of(pool)
    for handle in range(1, 200):
        assert admit(pool, handle, "abcd").hit_tokens == 3
        pool.free(Handle(handle))
        pool.begin_step()
    assert usage_of(pool) == before
    assert pool.totals.admissions == 1


PROMPT_HASH = BlockHash(bytes(range(32)))


@pytest.mark.parametrize(
    "other",
    [
        PROMPT_HASH[:2] + bytes(30),
        PROMPT_HASH[:-1] + b"\x00",
        b"\x01" + PROMPT_HASH[1:],
        PROMPT_HASH[:16],
        PROMPT_HASH + b"\x00",
    ],
    ids=["first 16 bits", "all but the last byte", "all but the first", "the first half", "longer"],
)
def test_c22_hashes_are_compared_whole(other: bytes) -> None:
    """What a hash is made of, salts and adapters among it, is vLLM's; no byte of it is left out."""
    pool = Pool(two_classes(num_slabs=12))
    names = {1: PROMPT_HASH, 2: BlockHash(other)}
    for handle, name in names.items():
        ask = AdmitRequest(Handle(handle), [name], 2, max_hit_tokens=1, max_grant_tokens=1)
        answer = pool.admit(ask)
        assert isinstance(answer, Admission)
        assert answer.hit_tokens == 0
        attention_blocks, state_blocks = take_all(pool, handle)
        pool.commit(Handle(handle), ATTENTION, name, (attention_blocks[0],))
        pool.commit(Handle(handle), STATES, name, (state_blocks[0],))
        pool.begin_step()
    again = pool.admit(
        AdmitRequest(Handle(3), [PROMPT_HASH], 2, max_hit_tokens=1, max_grant_tokens=1)
    )
    assert isinstance(again, Admission)
    assert again.hit_tokens == 1
