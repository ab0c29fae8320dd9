"""No block is padded by more than an eighth where memory allows that."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupSpec, Plan, make_plan
from kvquarry_tools.models import find_model, known_models
from tests.core.geometry import check_alignment, check_geometry, padding_of
from tests.core.small_pools import attention, states
from tests.strategies import examples

MOST_PADDING = 1 / 8
ENOUGH_SLABS = 24
ALIGNMENTS_PER_PAGE = 8


def planned(groups: list[GroupSpec], pool_bytes: int) -> Plan:
    """The plan, after all laws of its geometry were checked, one of which is unpadded attention."""
    plan = make_plan(groups, pool_bytes)
    check_geometry(plan, groups, pool_bytes)
    check_alignment(plan)
    return plan


def worst_padding(plan: Plan) -> float:
    return max(padding_of(plan, ClassId(index)) for index in range(len(plan.classes)))


def bounded_from(page: int, state: int) -> int:
    """Bytes of a region from which on the bound holds, for a page that divides every slab."""
    return ENOUGH_SLABS * max(14 * page, page + state)


def padded(state: int, alignment_bytes: int) -> GroupSpec:
    return dataclasses.replace(states(state), alignment_bytes=alignment_bytes)


@st.composite
def pages_and_states(draw: st.DrawFn) -> tuple[list[GroupSpec], int]:
    """Attention of one size or two, states at least as large, and memory for the bound."""
    alignment_bytes = draw(st.sampled_from([1, 4, 16, 64, 512]))
    smaller = ALIGNMENTS_PER_PAGE * alignment_bytes * draw(st.integers(1, 64))
    page = smaller * draw(st.integers(1, 4))
    state = draw(st.one_of(st.integers(page, 4 * page), st.integers(page, 600 * page)))
    groups = [attention(smaller), attention(page), padded(state, alignment_bytes)]
    least = bounded_from(page, state)
    return groups, draw(st.one_of(st.just(least), st.integers(least, 20 * least)))


@examples(300)
@given(pages_and_states())
def test_states_from_a_page_on_are_padded_by_an_eighth_at_most(
    case: tuple[list[GroupSpec], int],
) -> None:
    assert worst_padding(planned(*case)) <= MOST_PADDING


def served_with_states(block_tokens: int) -> Iterator[list[GroupSpec]]:
    """The groups of all known models whose states are no smaller than their pages of attention."""
    for name in known_models():
        groups = list(find_model(name).groups(block_tokens))
        if state_bytes(groups) >= page_bytes(groups):
            yield groups


def state_bytes(groups: Sequence[GroupSpec]) -> int:
    return max((group.page_bytes for group in groups if group.may_be_padded), default=0)


def page_bytes(groups: Sequence[GroupSpec]) -> int:
    return math.lcm(*(group.page_bytes for group in groups if not group.may_be_padded))


@pytest.mark.parametrize("block_tokens", [16, 128])
def test_the_bound_holds_for_models_from_the_memory_on_that_is_stated(block_tokens: int) -> None:
    models = list(served_with_states(block_tokens))
    assert len(models) >= 15
    for groups in models:
        alignment_bytes = max(group.alignment_bytes for group in groups)
        assert page_bytes(groups) % (ALIGNMENTS_PER_PAGE * alignment_bytes) == 0
        region_bytes = bounded_from(page_bytes(groups), state_bytes(groups))
        plan = planned(groups, region_bytes * max(group.num_layers for group in groups))
        assert worst_padding(plan) <= MOST_PADDING


@dataclasses.dataclass(frozen=True)
class Tempting:
    """Sizes whose cheapest slab, by what padding and large slabs lose together, pads too much."""

    page: int
    states: tuple[int, ...]
    region_bytes: int


@pytest.mark.parametrize(
    "tempting",
    [
        Tempting(14848, (6354,), 434 * 14848),
        Tempting(13312, (44172, 81094), 154 * 7 * 13312),
    ],
    ids=["states below a page", "states of two sizes"],
)
def test_a_slab_that_pads_less_is_taken_although_it_is_larger(tempting: Tempting) -> None:
    groups = [attention(tempting.page)]
    groups += [padded(state, 64) for state in tempting.states]
    assert worst_padding(planned(groups, tempting.region_bytes)) <= MOST_PADDING


def test_a_pool_of_few_slabs_may_pad_more() -> None:
    """What a slab of many states saves on padding it loses where a dozen of them fit."""
    groups = list(find_model("Zamba2").groups())
    plan = planned(groups, 200 * 2**20)
    assert plan.num_slabs < ENOUGH_SLABS
    assert MOST_PADDING < worst_padding(plan) < 0.17
