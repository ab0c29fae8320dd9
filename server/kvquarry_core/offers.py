"""A policy that an installed package offers: not loaded before somebody chooses it.

Names are known from the entry points alone, so that one package's fault stops nobody who did not
choose what it offers; and who did is told which package it is.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.eviction import Eviction
from kvquarry_core.placement import Placement
from kvquarry_core.relocation import Relocation
from kvquarry_core.retention import Retention

#: What a policy of each kind has to be.
PROTOCOLS: dict[str, type] = {
    "placement": Placement,
    "eviction": Eviction,
    "relocation": Relocation,
    "retention": Retention,
}
#: Of these kinds None is a policy, too.
_NONE_WILL_DO = frozenset({"relocation", "retention"})


@dataclass(frozen=True, slots=True)
class Offer:
    """One entry point; to call it is to load it and make the policy.

    Attributes:
        kind: One of :data:`PROTOCOLS`.
        entry: Where it is found.
    """

    kind: str
    entry: EntryPoint

    def __call__(self, *numbers: int) -> object:
        """A new policy, with the number in its name if there is one.

        Raises:
            UsageError: It cannot be loaded or made, or lacks something of its protocol; the message
                names the package.
        """
        try:
            make = self.entry.load()
        except Exception as error:  # a package may do anything
            raise self._refusal(f"which cannot be loaded: {_said(error)}") from error
        try:
            made = make(*numbers)
        except Exception as error:  # a package may do anything
            raise self._refusal(f"which cannot be made: {_said(error)}") from error
        if made is None and self.kind in _NONE_WILL_DO:
            return None
        missing = [name for name in members_of(self.kind) if not _has(made, name, self.kind)]
        if missing:
            has = ", ".join(members_of(self.kind))
            raise self._refusal(f"which lacks {', '.join(missing)} (a {self.kind} has {has})")
        return made

    def _refusal(self, why: str) -> UsageError:
        package = offering_package(self.entry)
        text = f"{package} offers {self.entry.name}, {why}; fix or uninstall it"
        return UsageError(Reason.UNKNOWN_POLICY, text)


def members_of(kind: str) -> tuple[str, ...]:
    """The methods and properties that a policy of a kind has."""
    return tuple(name for name in vars(PROTOCOLS[kind]) if not name.startswith("_"))


def offering_package(entry: EntryPoint) -> str:
    """Whose entry point it is, for people."""
    return f"package {entry.dist.name}" if entry.dist else "a package"


def _has(made: object, name: str, kind: str) -> bool:
    if isinstance(vars(PROTOCOLS[kind])[name], property):
        return hasattr(made, name)
    return callable(getattr(made, name, None))


def _said(error: Exception) -> str:
    """In one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
