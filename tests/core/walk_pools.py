"""Pools small enough to be modelled, each with a geometry in which something could go wrong."""

from kvquarry_core.plan import Plan, make_plan
from tests.core.small_pools import (
    attention,
    chunks,
    cross,
    draft,
    scratch,
    states,
    window,
)

WALK_POOLS: dict[str, Plan] = {
    "attention": make_plan([attention(16)], 16 * 16),
    "two groups of attention": make_plan([attention(16)] * 2, 16 * 24),
    "one page size, two kinds": make_plan(
        [attention(16, 2), states(16, 4), states(16, 4)], 16 * 28
    ),
    "ratio 3": make_plan([attention(16), *[states(48)] * 3], 48 * 14),
    "ratio 2.5": make_plan([attention(32, 2), *[states(80, 4)] * 2], 80 * 16),
    "states below a page, with drafts": make_plan([attention(64, 2), states(16, 2, 1)], 64 * 12),
    # A row of attention spans slabs, so that one eviction may empty several of them.
    "rows over slabs": make_plan([*[attention(32)] * 3, states(48)], 96 * 10),
    "three sizes": make_plan([attention(16, 2), *[states(40, 4)] * 2, states(96, 4)], 96 * 20),
    "three sizes, one padded to another": make_plan(
        [attention(16), *[states(40)] * 2, states(48)], 48 * 18
    ),
    "four sizes": make_plan(
        [attention(16, 2), attention(48, 2), states(32, 4), states(96, 4)], 96 * 18
    ),
    "window beside attention": make_plan([attention(16), *[window(16, 3)] * 2], 16 * 30),
    "window and chunks alone, two sizes": make_plan([window(16, 5, 2), chunks(32, 6, 4)], 32 * 24),
    "window with drafts and states": make_plan(
        [attention(16, 2), draft(16, 2), window(16, 5, 2, is_draft=True), states(48, 4)], 48 * 16
    ),
    "chunks, scratch and states": make_plan(
        [attention(16), chunks(16, 3), scratch(32, 5), states(48, 2)], 96 * 10
    ),
    "draft model": make_plan([attention(16), draft(16)], 16 * 24),
    "draft of coarse blocks, and states": make_plan(
        [attention(16, 2), draft(32, 4), states(48, 4)], 96 * 10
    ),
    "encoder": make_plan([attention(16, 2), cross(16, 2)], 16 * 28),
}
