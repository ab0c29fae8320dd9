"""The example of a policy outside the package is found, chosen, and keeps to the rules."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kvquarry_core.errors import Reason, UnknownPolicy
from kvquarry_core.ids import BlockId, ClassId, GroupId, Handle
from kvquarry_core.policies import (
    BUILT_IN,
    ENTRY_POINT_GROUP,
    Catalog,
    PolicyNames,
    installed_policies,
)
from kvquarry_core.pool import Pool
from kvquarry_tools.conformance import check_placement
from tests.core.small_pools import admit, grow, take_all, two_classes

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/best-fit"


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """What there is to choose from where the example is installed."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    offered = project["entry-points"][ENTRY_POINT_GROUP]
    return installed_policies(
        EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in offered.items()
    )


def test_the_example_is_offered_beside_the_built_in_policies(catalog: Catalog) -> None:
    assert set(catalog.placements) == {*BUILT_IN.placements, "best-fit"}
    assert catalog.evictions == BUILT_IN.evictions


def test_the_example_conforms(catalog: Catalog) -> None:
    check_placement(catalog.placements["best-fit"])


def hole_filled_next(catalog: Catalog, placement: str) -> tuple[BlockId, list[BlockId]]:
    """Two full slabs lose blocks, the first one more; where the next block goes."""
    policies = catalog.make(PolicyNames(placement=placement))
    pool = Pool(two_classes(num_slabs=4), placement=policies.placement)
    for handle in range(3):
        admit(pool, handle, "x")
        pool.settle(Handle(handle))
        grow(pool, handle, [3, 0])
        take_all(pool, handle)
    held = [list(pool.requests[Handle(handle)].held[0]) for handle in range(2)]
    for handle, blocks in ((0, held[0][:2]), (1, held[1][:1])):
        pool.drop_blocks(Handle(handle), GroupId(0), blocks)
    [block] = grow(pool, 2, [1, 0]).blocks[0]
    return block, [blocks[0] for blocks in held]


def test_a_pool_goes_by_the_example_where_it_was_chosen(catalog: Catalog) -> None:
    """Best fit fills the slab with one hole, first fit the lower one with two."""
    best, holes = hole_filled_next(catalog, "best-fit")
    first, same_holes = hole_filled_next(catalog, "first-fit")
    assert holes == same_holes
    slabs = Pool(two_classes(num_slabs=4)).store.slabs
    fullest, emptiest = (slabs.slab_of(ClassId(0), block) for block in reversed(holes))
    assert slabs.slab_of(ClassId(0), best) == fullest
    assert slabs.slab_of(ClassId(0), first) == emptiest


def test_a_name_that_nobody_offers_is_refused_with_those_there_are(catalog: Catalog) -> None:
    with pytest.raises(UnknownPolicy, match="there are affinity, first-fit, best-fit") as caught:
        catalog.make(PolicyNames(placement="worst-fit"))
    assert caught.value.reason is Reason.UNKNOWN_POLICY
