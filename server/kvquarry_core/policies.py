"""Which policies there are, and those one pool goes by.

A policy is an object behind a small interface: where new blocks go
(:class:`~kvquarry_core.placement.Placement`), what is evicted
(:class:`~kvquarry_core.eviction.Eviction`), what may be moved
(:class:`~kvquarry_core.relocation.Relocation`), which checkpoints stay
(:class:`~kvquarry_core.retention.Retention`). Packages add their own through the entry point
group ``kvquarry.policies``; the entry's name is the kind and the policy's name, as in
``placement.best-fit = "my_package:BestFit"``. A name that ends in ``-N`` stands for all with a
number there, which the policy is made with: ``every-N`` for ``every-4096``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import EVICTIONS, Eviction
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.placement import PLACEMENTS, Placement
from kvquarry_core.relocation import RELOCATIONS, Relocation
from kvquarry_core.retention import RETENTIONS, Retention

ENTRY_POINT_GROUP = "kvquarry.policies"

_ANY_NUMBER = "-N"
_WITH_NUMBER = re.compile(r"(.+)-([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class PolicyNames:
    """The policies of a pool by name.

    Attributes:
        placement: Where new blocks go.
        eviction: What is evicted when memory is short.
        relocation: What may be moved for a large block.
        retention: Which checkpoints stay; "engine" for what the engine's own setting says.
    """

    placement: str = "affinity"
    eviction: str = "lru"
    relocation: str = "off"
    retention: str = "engine"

    def or_else(self, default: "PolicyNames") -> "PolicyNames":
        """These, with ``default``'s where the name is empty."""
        return PolicyNames(
            self.placement or default.placement,
            self.eviction or default.eviction,
            self.relocation or default.relocation,
            self.retention or default.retention,
        )


#: Leaves every choice to somebody else.
NO_CHOICE = PolicyNames("", "", "", "")
#: The same of an engine that cannot move blocks, or does not say that it can.
NO_CHOICE_BUT_STAY = PolicyNames("", "", "off", "")


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that a pool itself asks, made for it alone; a retention is asked elsewhere.

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
    retentions: Mapping[str, Callable[..., Retention | None]]

    def make(self, names: PolicyNames) -> Policies:
        """New policy objects.

        Raises:
            UsageError: There is no policy of one of these names, the retention's among them.
        """
        self.make_retention(names.retention)
        return Policies(
            _find("placement", self.placements, names.placement)(),
            _find("eviction", self.evictions, names.eviction)(),
            _find("relocation", self.relocations, names.relocation)(),
        )

    def make_retention(self, name: str) -> Retention | None:
        """A new retention, for whoever commits; None for what the engine's own setting says.

        Raises:
            UsageError: There is none of this name.
        """
        made: Retention | None = _find("retention", self.retentions, name)()
        return made


#: What needs no other package.
BUILT_IN = Catalog(PLACEMENTS, EVICTIONS, RELOCATIONS, RETENTIONS)


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
        "retention": dict(BUILT_IN.retentions),
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
        retentions=offered["retention"],
    )


def is_offered(name: str, offered: Collection[str]) -> bool:
    """Whether a name, with its number if it has one, is among those on offer."""
    return _split(name, offered) is not None


def _find(kind: str, offered: Mapping[str, Callable[..., Any]], name: str) -> Callable[[], Any]:
    found = _split(name, offered)
    if found is None:
        raise UsageError(
            Reason.UNKNOWN_POLICY, f"there is no {kind} {name!r}; there are {', '.join(offered)}"
        )
    offer, numbers = found
    return partial(offered[offer], *numbers)


def _split(name: str, offered: Collection[str]) -> tuple[str, tuple[int, ...]] | None:
    """The name under which another is on offer, and the number in it if there is one."""
    if name in offered and not name.endswith(_ANY_NUMBER):
        return name, ()
    match = _WITH_NUMBER.fullmatch(name)
    if match is None or match[1] + _ANY_NUMBER not in offered:
        return None
    return match[1] + _ANY_NUMBER, (int(match[2]),)
