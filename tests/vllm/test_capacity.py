"""What is said of a pool's size at the start agrees with what the pool really holds."""

import itertools

import pytest

from kvquarry_core.ids import Handle
from kvquarry_core.messages import Admission, AdmitRequest
from kvquarry_core.plan import GroupSpec, make_plan
from kvquarry_core.pool import Pool
from kvquarry_vllm import capacity
from kvquarry_vllm.capacity import RequestSize
from kvquarry_vllm.grouping import group_specs
from tests.vllm.configurations import (
    PAGE_BYTES,
    attention_layers,
    groups_of,
    hybrid_layers,
    pool_config,
    vllm_config,
)

HYBRID = group_specs(groups_of(hybrid_layers()))
ATTENTION = group_specs(groups_of(attention_layers()))


def size(num_tokens: int) -> RequestSize:
    """Every step may take all of a request."""
    return RequestSize(num_tokens, num_tokens)


MODELS = pytest.mark.parametrize("groups", [HYBRID, ATTENTION], ids=["hybrid", "attention"])


def admits(groups: tuple[GroupSpec, ...], memory_bytes: int, num_tokens: int) -> bool:
    """Whether an empty pool takes one request whole, with one more state per group in hand."""
    pool = Pool(make_plan(groups, memory_bytes))
    answer = pool.admit(
        AdmitRequest(Handle(1), (), num_tokens, 0, num_tokens, must_fit_tokens=num_tokens)
    )
    if not isinstance(answer, Admission):
        return False
    granted = [len(blocks) for blocks in answer.grant.blocks]
    wanted = capacity.blocks_of_request(groups, size(num_tokens))
    more = [most - has for most, has in zip(wanted, granted, strict=True)]
    return not hasattr(pool.grow(Handle(1), more), "cause")


@MODELS
@pytest.mark.parametrize("num_tokens", [1, 64, 65, 1000, 4096])
def test_the_memory_found_for_a_request_admits_it(
    groups: tuple[GroupSpec, ...], num_tokens: int
) -> None:
    memory_bytes = capacity.memory_for_request(groups, size(num_tokens))
    assert capacity.fits_one_request(make_plan(groups, memory_bytes), size(num_tokens))
    assert admits(groups, memory_bytes, num_tokens)


@MODELS
def test_what_start_up_accepts_is_admitted(groups: tuple[GroupSpec, ...]) -> None:
    """From far too little to plenty; start-up asks for one state more, for a step in flight."""
    num_tokens = 1000
    enough = capacity.memory_for_request(groups, size(num_tokens))
    answers = []
    for memory_bytes in range(enough // 2, enough * 3 // 2, PAGE_BYTES):
        if capacity.enough_memory(groups, memory_bytes) != memory_bytes:
            continue
        fits = capacity.fits_one_request(make_plan(groups, memory_bytes), size(num_tokens))
        assert admits(groups, memory_bytes, num_tokens) or not fits
        answers.append(fits)
    assert set(answers) == {False, True}


@MODELS
def test_longer_requests_need_no_less_memory(groups: tuple[GroupSpec, ...]) -> None:
    """But for what another choice of slabs may save."""
    sizes = [capacity.memory_for_request(groups, size(tokens)) for tokens in range(64, 4096, 448)]
    assert all(later > 0.95 * earlier for earlier, later in itertools.pairwise(sizes))
    assert sizes[-1] > 2 * sizes[0]


def test_states_are_counted_once_per_request() -> None:
    """Attention grows with the tokens; states are the running one and, at a boundary, one more."""
    assert capacity.blocks_of_request(HYBRID, size(6400)) == [2, 2, 2, 100]
    assert capacity.blocks_of_request(HYBRID, size(64)) == [2, 2, 2, 1]


def test_a_pool_is_counted_in_attention_blocks() -> None:
    assert capacity.bytes_per_attention_block(HYBRID) == 2 * PAGE_BYTES
    assert capacity.bytes_per_attention_block(ATTENTION) == 4 * PAGE_BYTES


def test_concurrency_is_what_requests_take_of_the_pool() -> None:
    config = pool_config(hybrid_layers())
    plan = config.plan
    states = plan.classes[1]
    request_bytes = 16 * PAGE_BYTES + 6 * states.stride_bytes
    usable_bytes = plan.region_bytes - plan.num_reserved_blocks * PAGE_BYTES
    assert capacity.max_concurrency(plan, size(1024)) == usable_bytes / request_bytes


def test_concurrency_of_attention_alone_is_stock_vllms() -> None:
    """Stock divides all blocks, the null block included, by the blocks of one request."""
    plan = pool_config(attention_layers()).plan
    num_usable = plan.classes[0].num_usable_blocks
    assert capacity.max_concurrency(plan, size(1024)) == num_usable / 16


def test_an_override_gives_the_memory_of_that_many_attention_blocks() -> None:
    from kvquarry_vllm.gates.v0_32 import configuring

    config_from_groups = configuring(lambda *_: None)
    config = config_from_groups(
        vllm_config(cache_config__num_gpu_blocks_override=100), groups_of(hybrid_layers()), 0
    )
    assert config.memory_bytes == 100 * 2 * PAGE_BYTES
    assert 0 <= 100 - config.num_blocks < config.plan.classes[0].blocks_per_slab
