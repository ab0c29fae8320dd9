"""Which policies there are, and those one pool goes by.

A policy is an object behind a small interface: where new blocks go
(:class:`~kvquarry_core.placement.Placement`), what is evicted
(:class:`~kvquarry_core.eviction.Eviction`), what may be moved
(:class:`~kvquarry_core.relocation.Relocation`). Packages add their own through the entry point
group ``kvquarry.policies``; the entry's name is the kind and the policy's name, as in
``placement.best-fit = "my_package:BestFit"``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import EVICTIONS, Eviction
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.placement import PLACEMENTS, Placement
from kvquarry_core.relocation import RELOCATIONS, Relocation

ENTRY_POINT_GROUP = "kvquarry.policies"


@dataclass(frozen=True, slots=True)
class PolicyNames:
    """The policies of a pool by name.

    Attributes:
        placement: Where new blocks go.
        eviction: What is evicted when memory is short.
        relocation: What may be moved for a large block.
    """

    placement: str = "affinity"
    eviction: str = "lru"
    relocation: str = "off"

    def or_else(self, default: "PolicyNames") -> "PolicyNames":
        """These, with ``default``'s where the name is empty."""
        return PolicyNames(
            self.placement or default.placement,
            self.eviction or default.eviction,
            self.relocation or default.relocation,
        )


#: Leaves every choice to somebody else.
NO_CHOICE = PolicyNames("", "", "")
#: The same of an engine that cannot move blocks, or does not say that it can.
NO_CHOICE_BUT_STAY = PolicyNames("", "", "off")


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a pool, made for it alone.

    Attributes:
        placement: Where new blocks go.
        eviction: What is evicted when memory is short.
        relocation: What may be moved for a large block; None for nothing.
        pin_cap: The share of the pool that pins may hold.
    """

    placement: Placement
    eviction: Eviction
    relocation: Relocation | None
    pin_cap: float = DEFAULT_PIN_CAP


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every policy on offer: how to make it, by name."""

    placements: Mapping[str, Callable[[], Placement]]
    evictions: Mapping[str, Callable[[], Eviction]]
    relocations: Mapping[str, Callable[[], Relocation | None]]

    def make(self, names: PolicyNames) -> Policies:
        """New policy objects.

        Raises:
            UsageError: There is no policy of one of these names.
        """
        return Policies(
            _find("placement", self.placements, names.placement)(),
            _find("eviction", self.evictions, names.eviction)(),
            _find("relocation", self.relocations, names.relocation)(),
        )


#: What needs no other package.
BUILT_IN = Catalog(PLACEMENTS, EVICTIONS, RELOCATIONS)


def installed_policies(found: Iterable[EntryPoint] | None = None) -> Catalog:
    """The built-in policies and those that installed packages offer.

    Args:
        found: Entry points to look at; by default those of all installed packages.

    Raises:
        UsageError: A package offers something under a name that cannot be understood.
    """
    offered: dict[str, dict[str, Any]] = {
        "placement": dict(BUILT_IN.placements),
        "eviction": dict(BUILT_IN.evictions),
        "relocation": dict(BUILT_IN.relocations),
    }
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        kind, _, name = entry.name.partition(".")
        if kind not in offered or not name:
            raise UsageError(
                Reason.UNKNOWN_POLICY,
                f"entry point {entry.name!r} of {ENTRY_POINT_GROUP}: name it "
                f"{'|'.join(offered)}.NAME",
            )
        offered[kind][name] = entry.load()
    return replace(
        BUILT_IN,
        placements=offered["placement"],
        evictions=offered["eviction"],
        relocations=offered["relocation"],
    )


def _find(kind: str, offered: Mapping[str, Callable[[], Any]], name: str) -> Callable[[], Any]:
    if name not in offered:
        raise UsageError(
            Reason.UNKNOWN_POLICY, f"there is no {kind} {name!r}; there are {', '.join(offered)}"
        )
    return offered[name]
