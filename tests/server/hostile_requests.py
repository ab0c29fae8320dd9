"""Random requests to open a pool, from sensible to absurd."""

from hypothesis import strategies as st

from kvquarry_core.plan import GroupKind, GroupSpec
from kvquarry_core.work import Work
from kvquarry_server.registry import OpenRequest

_UINT32, _UINT64 = (1 << 32) - 1, (1 << 64) - 1

_sizes = st.sampled_from([0, 1, 7, 16, 64, 100, 4096, 65_537, 1 << 20, _UINT32])
_group_specs = st.builds(
    GroupSpec,
    kind=st.sampled_from(GroupKind),
    block_tokens=_sizes,
    page_bytes=st.one_of(_sizes, st.sampled_from([64, 64, 256]), st.integers(0, _UINT64)),
    num_layers=st.sampled_from([0, 1, 1, 2, 3, _UINT32]),
    num_speculative_blocks=st.sampled_from([0, 0, 1, _UINT32]),
    alignment_bytes=_sizes,
)

open_requests = st.builds(
    OpenRequest,
    engine=st.one_of(st.just("engine"), st.text(max_size=300)),
    groups=st.lists(_group_specs, max_size=5).map(tuple),
    pool_bytes=st.one_of(st.integers(0, 1 << 16), st.integers(0, 1 << 30), st.integers(0, _UINT64)),
    num_workers=st.sampled_from([0, 1, 2, _UINT32]),
    model=st.text(max_size=20),
    work=st.none() | st.builds(Work, st.floats(), st.floats()),
)
