"""Which policies there are, and those one pool goes by.

A policy is an object behind a small interface: where new blocks go
(:class:`~kvquarry_core.placement.Placement`), what is evicted
(:class:`~kvquarry_core.eviction.Eviction`), what may be moved
(:class:`~kvquarry_core.relocation.Relocation`), which checkpoints stay
(:class:`~kvquarry_core.retention.Retention`). Packages add their own through the entry point
group ``kvquarry.policies``; the entry's name is the kind and the policy's name, as in
``placement.best-fit = "my_package:BestFit"``. A name that ends in ``-N`` stands for all with a
number there, which the policy is made with: ``every-N`` for ``every-4096``. What a package offers
is loaded when it is chosen, and not before (:mod:`kvquarry_core.offers`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kvquarry_core.errors import Reason, UnknownPolicy, UsageError
from kvquarry_core.eviction import EVICTIONS, Eviction
from kvquarry_core.offers import PROTOCOLS, Offer, offering_package
from kvquarry_core.pins import DEFAULT_PIN_CAP
from kvquarry_core.placement import PLACEMENTS, Placement
from kvquarry_core.relocation import RELOCATIONS, Relocation
from kvquarry_core.retention import RETENTIONS, Retention

ENTRY_POINT_GROUP = "kvquarry.policies"
#: What may stand for the N at a name's end, for people.
NUMBERS = "a whole number from 1 to 999999999, without leading zeros"

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

    @property
    def may_move(self) -> bool:
        """Whether blocks may be moved at all."""
        return self.relocation != "off"


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
    """Every policy on offer: how to make it, by name.

    Attributes:
        placements: Where new blocks go.
        evictions: What is evicted.
        relocations: What may be moved.
        retentions: Which checkpoints stay.
        strays: Offers of no kind there is, which nobody can choose.
    """

    placements: Mapping[str, Callable[[], Placement]]
    evictions: Mapping[str, Callable[[], Eviction]]
    relocations: Mapping[str, Callable[[], Relocation | None]]
    retentions: Mapping[str, Callable[..., Retention | None]]
    strays: tuple[EntryPoint, ...] = ()

    def make(self, names: PolicyNames) -> Policies:
        """New policy objects.

        Raises:
            UnknownPolicy: There is no policy of one of these names, the retention's among them.
            UsageError: One is not to be had: its number makes no sense, or its package is broken.
        """
        self.make_retention(names.retention)
        return Policies(
            self._find("placement", self.placements, names.placement)(),
            self._find("eviction", self.evictions, names.eviction)(),
            self._find("relocation", self.relocations, names.relocation)(),
        )

    def make_retention(self, name: str) -> Retention | None:
        """A new retention, for whoever commits; None for what the engine's own setting says.

        Raises:
            UnknownPolicy: There is none of this name.
            UsageError: It is not to be had: its number makes no sense, or its package is broken.
        """
        made: Retention | None = self._find("retention", self.retentions, name)()
        return made

    def _find(
        self, kind: str, offered: Mapping[str, Callable[..., Any]], name: str
    ) -> Callable[[], Any]:
        found = _split(name, offered)
        if found is not None:
            offer, numbers = found
            return partial(offered[offer], *numbers)
        for stem in (one.removesuffix("N") for one in offered if one.endswith(_ANY_NUMBER)):
            if name.startswith(stem):
                raise UsageError(
                    Reason.UNKNOWN_POLICY,
                    f"there is no {kind} {name!r}: N in {stem}N is {NUMBERS}",
                )
        raise UnknownPolicy(kind, name, tuple(offered), _almost(name, kind, self.strays))


#: What needs no other package.
BUILT_IN = Catalog(PLACEMENTS, EVICTIONS, RELOCATIONS, RETENTIONS)


def installed_policies(found: Iterable[EntryPoint] | None = None) -> Catalog:
    """The built-in policies and those that installed packages offer.

    Args:
        found: Entry points to look at; by default those of all installed packages. None is loaded
            before it is chosen.
    """
    offered: dict[str, dict[str, Any]] = {
        "placement": dict(BUILT_IN.placements),
        "eviction": dict(BUILT_IN.evictions),
        "relocation": dict(BUILT_IN.relocations),
        "retention": dict(BUILT_IN.retentions),
    }
    strays = []
    for entry in entry_points(group=ENTRY_POINT_GROUP) if found is None else found:
        kind, _, name = entry.name.partition(".")
        if kind in PROTOCOLS and name:
            offered[kind][name] = Offer(kind, entry)
        else:
            strays.append(entry)
    return Catalog(
        placements=offered["placement"],
        evictions=offered["eviction"],
        relocations=offered["relocation"],
        retentions=offered["retention"],
        strays=tuple(strays),
    )


def is_offered(name: str, offered: Collection[str]) -> bool:
    """Whether a name, with its number if it has one, is among those on offer."""
    return _split(name, offered) is not None


def _almost(name: str, kind: str, strays: Iterable[EntryPoint]) -> str:
    """Who may have meant to offer a policy that nobody offers; empty where nobody did."""
    for entry in strays:
        offer = entry.name.rpartition(".")[2]
        if is_offered(name, (offer,)):
            return f"{offering_package(entry)} offers {entry.name!r}: name it {kind}.{offer}"
    return ""


def _split(name: str, offered: Collection[str]) -> tuple[str, tuple[int, ...]] | None:
    """The name under which another is on offer, and the number in it if there is one."""
    if name in offered and not name.endswith(_ANY_NUMBER):
        return name, ()
    match = _WITH_NUMBER.fullmatch(name)
    if match is None or match[1] + _ANY_NUMBER not in offered:
        return None
    return match[1] + _ANY_NUMBER, (int(match[2]),)
