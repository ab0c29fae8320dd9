"""The geometry of a pool: laws for any groups and any memory."""

import dataclasses
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvquarry_core.errors import PlanError, Reason
from kvquarry_core.ids import ClassId
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, SizeClass, make_plan
from tests.core.geometry import check_alignment, check_class, check_geometry, padding_of
from tests.core.reference import ever_fits
from tests.core.small_pools import attention, one_class, states, two_classes
from tests.strategies import GROUP_KINDS, GROUPS, examples, pool_bytes_for, small_plans

GIB = 2**30


@st.composite
def planned(draw: st.DrawFn) -> tuple[Plan, list[GroupSpec], int]:
    """Groups and memory that admit a plan, and the plan."""
    groups = draw(GROUPS)
    pool_bytes = draw(pool_bytes_for(groups))
    try:
        return make_plan(groups, pool_bytes), groups, pool_bytes
    except PlanError:
        assume(False)  # noqa: FBT003
        raise


@examples(200)
@given(planned())
def test_geometry_laws_hold(case: tuple[Plan, list[GroupSpec], int]) -> None:
    check_geometry(*case)


@examples(200)
@given(planned())
def test_padded_strides_are_aligned(case: tuple[Plan, list[GroupSpec], int]) -> None:
    check_alignment(case[0])


@examples(200)
@given(planned())
def test_classes_are_ordered_by_stride(case: tuple[Plan, list[GroupSpec], int]) -> None:
    strides = [size_class.stride_bytes for size_class in case[0].classes]
    assert strides == sorted(strides)


@pytest.mark.parametrize("pool_bytes", [20_000, 50_000, 200_000])
def test_padding_does_not_change_the_order_of_classes(pool_bytes: int) -> None:
    """Small states are padded beyond the page of attention here, and so come after it."""
    groups = [attention(172), *(aligned_states(page_bytes, 64) for page_bytes in (93, 219))]
    plan = make_plan(groups, pool_bytes)
    check_geometry(plan, groups, plan.pool_bytes)
    strides = [size_class.stride_bytes for size_class in plan.classes]
    assert strides == sorted(strides)


def aligned_states(page_bytes: int, alignment_bytes: int) -> GroupSpec:
    """States whose padded stride has to be a multiple of `alignment_bytes`."""
    return dataclasses.replace(states(page_bytes), alignment_bytes=alignment_bytes)


@examples(100)
@given(planned())
def test_equal_inputs_give_an_equal_plan(case: tuple[Plan, list[GroupSpec], int]) -> None:
    plan, groups, pool_bytes = case
    assert make_plan([dataclasses.replace(group) for group in groups], pool_bytes) == plan


@examples(200)
@given(planned())
def test_a_planned_pool_holds_one_block_of_every_class_at_once(
    case: tuple[Plan, list[GroupSpec], int],
) -> None:
    assert ever_fits(case[0], [1] * len(case[0].classes))


@examples(100)
@given(st.data())
def test_too_small_memory_is_told_how_much_is_needed(data: st.DataObject) -> None:
    groups = data.draw(GROUPS)
    pool_bytes = data.draw(st.integers(0, max(group.page_bytes for group in groups) * 24))
    error = refusal_of(groups, pool_bytes)
    if error is not None:
        assert error.reason is Reason.POOL_TOO_SMALL
        needed = re.search(r"at least (\d+) bytes", str(error))
        assert needed is not None, error
        assert int(needed[1]) > pool_bytes
        plan = make_plan(groups, int(needed[1]))
        assert ever_fits(plan, [1] * len(plan.classes))


def refusal_of(groups: list[GroupSpec], pool_bytes: int) -> PlanError | None:
    """Why there is no plan, if there is none."""
    try:
        make_plan(groups, pool_bytes)
    except PlanError as error:
        return error
    return None


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A state page and an attention page of a real model, and what their slabs look like."""

    attention_page_bytes: int
    state_page_bytes: int
    blocks_per_slab: tuple[int, int]
    largest_padding: float


RATIOS = {
    "0.25": Ratio(32768, 8192, (4, 1), 0),
    "2.1 (Zamba2)": Ratio(327680, 686848, (10, 21), 0.002),
    "4.75 (Jamba)": Ratio(65536, 311296, (4, 19), 0),
    "65.5 (Qwen3.6-35B-A3B)": Ratio(32768, 2146304, (1, 66), 0.0076),
    "265 (GLM-5.3-Flash)": Ratio(16384, 4341760, (1, 265), 0),
    "519 (Nemotron-3-Ultra)": Ratio(16384, 8499200, (1, 519), 0.0006),
}


@pytest.mark.parametrize("ratio", RATIOS.values(), ids=RATIOS)
def test_any_ratio_of_sizes_is_cut_with_little_waste(ratio: Ratio) -> None:
    groups = [attention(ratio.attention_page_bytes), states(ratio.state_page_bytes)]
    plan = make_plan(groups, 2 * GIB)
    check_geometry(plan, groups, 2 * GIB)
    assert sorted(c.blocks_per_slab for c in plan.classes) == sorted(ratio.blocks_per_slab)
    assert all(padding_of(plan, ClassId(index)) <= ratio.largest_padding for index in (0, 1))


def test_four_classes_share_one_pool() -> None:
    groups = [attention(16384), attention(49152), states(311296), states(2146304)]
    plan = make_plan(groups, 16 * GIB)
    check_geometry(plan, groups, 16 * GIB)
    assert len(plan.classes) == 4
    assert all(padding_of(plan, ClassId(index)) < 0.02 for index in range(4))


def test_states_alone_are_padded_to_each_other() -> None:
    groups = [states(100), states(250)]
    plan = make_plan(groups, 100_000)
    check_geometry(plan, groups, 100_000)
    check_alignment(plan)
    assert all(padding_of(plan, ClassId(index)) < 0.25 for index in (0, 1))


def test_one_class_has_one_slab_and_no_padding() -> None:
    plan = make_plan([attention(24), attention(24, 4)], 1000)
    assert plan.num_slabs == 1
    assert plan.classes == (SizeClass(24, 24, 41, 41, 40),)


def test_states_and_attention_of_one_page_size_share_memory_but_no_class() -> None:
    """As blocks of one class, attention would read a state's bytes without being told."""
    groups = [attention(24), states(24)]
    plan = make_plan(groups, 1000)
    check_geometry(plan, groups, plan.pool_bytes)
    assert len(plan.classes) == 2
    assert plan.class_of_group[0] != plan.class_of_group[1]


def test_kinds_are_groups_with_equal_specs_and_attention_comes_first() -> None:
    plan = make_plan([states(48), attention(16), states(48), attention(16, 2)], 4800)
    assert plan.kinds == ((1,), (3,), (0, 2))


def test_a_smaller_group_of_the_layers_left_over_is_of_the_same_kind() -> None:
    """As of Kimi-Linear's 20 states in groups of seven: what is of use together goes together."""
    groups = [attention(16, num_layers=7), *(replace(states(48), num_layers=n) for n in (7, 7, 6))]
    plan = make_plan(groups, 7 * 480)
    check_geometry(plan, groups, plan.pool_bytes)
    assert plan.kinds == ((0,), (1, 2, 3))


def test_every_region_is_cut_for_the_group_with_most_layers() -> None:
    plan = make_plan([attention(16, num_layers=3), attention(16, num_layers=5)], 5 * 160 + 4)
    assert plan.num_regions == 5
    assert plan.region_bytes == 160


def test_no_groups_are_refused() -> None:
    with pytest.raises(PlanError, match="at least one KV cache group") as caught:
        make_plan([], GIB)
    assert caught.value.reason is Reason.INVALID_GROUPS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_tokens", 0),
        ("page_bytes", 0),
        ("num_layers", 0),
        ("alignment_bytes", 0),
        ("num_speculative_blocks", -1),
    ],
)
def test_a_group_without_a_size_is_named(field: str, value: int) -> None:
    wrong = dataclasses.replace(attention(16), **{field: value})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=rf"group 1 .*{field}={value}") as caught:
        make_plan([attention(16), wrong], GIB)
    assert caught.value.reason is Reason.INVALID_GROUPS


def test_a_wrong_stride_breaks_the_geometry() -> None:
    plan = two_classes(10)
    check_class(plan, plan.classes[1])
    for stride_bytes in (40, 32, 56):
        with pytest.raises(AssertionError):
            check_class(plan, dataclasses.replace(plan.classes[1], stride_bytes=stride_bytes))


@pytest.mark.parametrize("num_reserved_blocks", [2, 4])
def test_null_blocks_outside_the_reserved_ones_break_the_geometry(
    num_reserved_blocks: int,
) -> None:
    plan = two_classes(10)
    groups, pool_bytes = list(plan.groups), plan.pool_bytes
    check_geometry(plan, groups, pool_bytes)
    wrong = dataclasses.replace(plan, num_reserved_blocks=num_reserved_blocks)
    with pytest.raises(AssertionError):
        check_geometry(wrong, groups, pool_bytes)


def test_a_misaligned_stride_is_seen() -> None:
    plan = make_plan([attention(48), states(100)], 4800)
    check_alignment(plan)
    wrong = dataclasses.replace(plan.classes[1], stride_bytes=104)
    with pytest.raises(AssertionError):
        check_alignment(dataclasses.replace(plan, classes=(plan.classes[0], wrong)))


@given(small_plans())
def test_small_plans_are_plans_like_any_other(plan: Plan) -> None:
    check_geometry(plan, plan.groups, plan.pool_bytes)
    assert one_class(5).classes[0].num_usable_blocks == 5


@examples(300)
@given(small_plans(), st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_what_a_pool_could_hold_is_counted_for_all_classes_at_once(
    plan: Plan, wanted: list[int]
) -> None:
    demand = wanted[: len(plan.classes)] + [0] * (len(plan.classes) - 3)
    assert plan.could_hold(demand) == ever_fits(plan, demand)


def test_strategies_know_every_kind_and_every_field_of_a_group() -> None:
    assert set(GROUP_KINDS) == set(GroupKind)
    drawn = {
        "kind",
        "block_tokens",
        "page_bytes",
        "num_layers",
        "num_speculative_blocks",
        "alignment_bytes",
        "window_tokens",
        "is_draft",
    }
    assert {field.name for field in dataclasses.fields(GroupSpec)} == drawn
