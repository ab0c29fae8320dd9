"""Hypothesis strategies shared by all suites. Every new feature of the plan must be drawn here."""

from hypothesis import settings
from hypothesis import strategies as st

from kvquarry_core.errors import PlanError
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan

GROUP_KINDS = tuple(GroupKind)
WINDOWED = (GroupKind.SLIDING_WINDOW, GroupKind.CHUNKED_LOCAL)
MAY_BE_DRAFT = (GroupKind.FULL_ATTENTION, *WINDOWED)
#: A model with cross attention never hits, so it is drawn less often.
_SMALL_KINDS = (
    *[GroupKind.FULL_ATTENTION, GroupKind.SLIDING_WINDOW] * 3,
    *[GroupKind.CHUNKED_LOCAL, GroupKind.RECURRENT_STATE] * 3,
    *[GroupKind.CROSS_ATTENTION, GroupKind.SCRATCH],
)

#: Pages as models have them, odd ones, and tiny ones, where all bounds are tight. Two sizes of one
#: pool differ by a factor of about 100 at most, since planning takes time in proportion.
MODEL_PAGE_BYTES = st.one_of(
    st.sampled_from([1024, 4096, 16384, 32768, 49152, 65536]), st.integers(600, 70_000)
)
TINY_PAGE_BYTES = st.integers(3, 300)
#: Pages so small that a whole pool can be modelled byte by byte.
SMALL_PAGE_BYTES = st.sampled_from([16, 32, 40, 48, 64, 80, 96, 112, 128])


def examples(number: int) -> settings:
    """Settings with ``number`` examples in the usual profile, in proportion in the others.

    However long one takes: that says more of the machine than of the code.
    """
    profile = settings()
    max_examples = max(1, number * profile.max_examples // 100)
    return settings(profile, max_examples=max_examples, deadline=None)


def group_specs(
    page_bytes: st.SearchStrategy[int], block_tokens: st.SearchStrategy[int]
) -> st.SearchStrategy[GroupSpec]:
    """One KV cache group of any kind."""
    return st.builds(
        make_group,
        kind=st.sampled_from(GROUP_KINDS),
        block_tokens=block_tokens,
        page_bytes=page_bytes,
        num_layers=st.integers(1, 12),
        num_speculative_blocks=st.integers(0, 3),
        alignment_bytes=st.sampled_from([1, 4, 16, 64, 512]),
        window_tokens=st.sampled_from([1, 7, 16, 128, 1024]),
        is_draft=st.booleans(),
    )


def make_group(kind: GroupKind, *, window_tokens: int, is_draft: bool, **sizes: int) -> GroupSpec:
    """A group that has a window, or is a draft model's, only where its kind allows that."""
    return GroupSpec(
        kind=kind,
        window_tokens=window_tokens if kind in WINDOWED else 0,
        is_draft=is_draft and kind in MAY_BE_DRAFT,
        **sizes,
    )


def _group_lists(page_bytes: st.SearchStrategy[int]) -> st.SearchStrategy[list[GroupSpec]]:
    specs = group_specs(page_bytes, st.sampled_from([1, 8, 16, 48, 64, 528]))
    return st.lists(specs, min_size=1, max_size=5).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=6)
    )


#: Groups of a made-up model, some of them equal.
GROUPS = st.one_of(_group_lists(MODEL_PAGE_BYTES), _group_lists(TINY_PAGE_BYTES))


@st.composite
def pool_bytes_for(draw: st.DrawFn, groups: list[GroupSpec]) -> int:
    """Memory for ``groups``: from nothing at all to some hundred of the largest pages."""
    largest = max(group.page_bytes for group in groups)
    num_regions = max(group.num_layers for group in groups)
    return draw(st.integers(0, 300)) * largest * num_regions + draw(st.integers(0, largest))


@st.composite
def small_plans(draw: st.DrawFn) -> Plan:
    """A plan of one to three size classes, small enough to be modelled cell by cell.

    Groups of one kind come in twos and threes, since their rows span slabs.
    """
    specs = draw(
        st.lists(
            st.builds(
                make_group,
                kind=st.sampled_from(_SMALL_KINDS),
                block_tokens=st.sampled_from([1, 2, 3, 4]),
                page_bytes=SMALL_PAGE_BYTES,
                num_layers=st.just(1),
                num_speculative_blocks=st.integers(0, 1),
                alignment_bytes=st.sampled_from([8, 16]),
                window_tokens=st.integers(1, 9),
                is_draft=st.sampled_from([False, False, False, True]),
            ),
            min_size=1,
            max_size=3,
            unique_by=draw(st.sampled_from([_page_bytes, _page_bytes, _page_bytes_and_kind])),
        )
    )
    groups = [spec for spec in specs for _ in range(draw(st.integers(1, 3)))]
    unit_bytes = max(spec.page_bytes for spec in specs)
    # The memory is enlarged until it suffices; how much that is, test_plan asks.
    for num_units in range(draw(st.integers(8, 24)), 4096, 4):
        try:
            plan = make_plan(groups, num_units * unit_bytes)
        except PlanError:
            continue
        if plan.num_slabs > len(plan.classes) or len(plan.classes) == 1:
            return plan
    raise AssertionError(f"no memory is enough for {groups}")


def _page_bytes(spec: GroupSpec) -> object:
    return spec.page_bytes


def _page_bytes_and_kind(spec: GroupSpec) -> object:
    return spec.page_bytes, spec.kind


#: Prompts, one letter for each hash unit: some share much, some little, some nothing.
PROMPTS = st.builds(
    lambda document, length, ending: document[:length] + ending,
    st.sampled_from(["aaaaaaaaaaaa", "aaaabbbbaaaa", "bbbb"]),
    st.integers(0, 12),
    st.sampled_from(["", "a", "b"]),
)
