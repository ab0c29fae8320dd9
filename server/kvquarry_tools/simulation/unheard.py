"""Flags that nothing would come of: refused, since who gives one wants to see its effect."""

import argparse
from collections.abc import Iterator

from kvquarry_tools.errors import InvalidOption

_POLICIES = ("--placement", "--eviction", "--relocation")
#: What a replay on a baseline, or churn on one, does not read.
_UNHEARD_BY_REPLAY = {
    "uniform": _POLICIES,
    "static": _POLICIES,
    "infinite": (*_POLICIES, "--plot"),
    "belady": (*_POLICIES, "--retention", "--plot"),
}
_UNHEARD_BY_CHURN = ("--first", "--no-decode", "--plot", "--retention", "--eviction")
_UNHEARD_BY_TRACE = ("--seeds", "--steps")


def check_heard(arguments: argparse.Namespace) -> None:
    """Refuse a flag that has no effect beside another.

    Raises:
        InvalidOption: There is one; the message names both.
    """
    for flag, other in _unheard(arguments):
        value = getattr(arguments, flag.removeprefix("--").replace("-", "_"))
        # 0 was given, too.
        if value is not None and value is not False:
            raise InvalidOption(f"{flag} has no effect with {other}; leave one of them out")


def _unheard(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Flags without effect, each with the one that takes it."""
    baseline: str | None = arguments.baseline
    of_baseline: tuple[str, ...]
    if arguments.churn:
        yield from ((flag, "--churn") for flag in _UNHEARD_BY_CHURN)
        of_baseline = _POLICIES if baseline else ()
    else:
        yield from ((flag, "--trace") for flag in _UNHEARD_BY_TRACE)
        of_baseline = _UNHEARD_BY_REPLAY.get(baseline or "", ())
    yield from ((flag, f"--baseline {baseline}") for flag in of_baseline)
