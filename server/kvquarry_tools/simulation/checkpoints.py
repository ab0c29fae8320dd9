"""Which checkpoints a simulated engine keeps, by the name of its retention."""

from dataclasses import replace

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.errors import UsageError
from kvquarry_core.policies import Catalog, PolicyNames, installed_policies
from kvquarry_tools.errors import InvalidOption

_ENGINES_OWN = PolicyNames().retention


def offered_retentions() -> tuple[str, ...]:
    """Those there are; no engine is here whose own setting one could go by."""
    return tuple(_catalog().retentions)


def checkpoints(name: str, alignment_tokens: int) -> Checkpoints:
    """What a retention of the core or of an installed package keeps.

    Args:
        name: As in ``--retention``.
        alignment_tokens: Hits end at multiples of this.

    Raises:
        InvalidOption: There is no such retention, or it leaves the choice to an engine.
    """
    retention = None
    if name != _ENGINES_OWN:
        try:
            retention = _catalog().make_retention(name)
        except UsageError as error:
            raise InvalidOption(str(error)) from error
    if retention is None:
        raise InvalidOption(
            f"--retention {name} leaves the choice to an engine's own setting, and simulate has no "
            f"engine; choose one of {', '.join(offered_retentions())}"
        )
    return Checkpoints(retention, alignment_tokens)


def _catalog() -> Catalog:
    catalog = installed_policies()
    named = {name: make for name, make in catalog.retentions.items() if name != _ENGINES_OWN}
    return replace(catalog, retentions=named)
