"""Retentions, which run in the engine and ask no pool: each way to be wrong is caught."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from kvquarry_core.policies import BUILT_IN
from kvquarry_core.retention import (
    RETENTIONS,
    Boundaries,
    Dense,
    EveryInterval,
    Landmarks,
    Retention,
)
from kvquarry_tools.conformance import NotConforming, check_retention


@pytest.mark.parametrize("name", [name.replace("-N", "-48") for name in RETENTIONS])
def test_every_retention_on_offer_conforms(name: str) -> None:
    check_retention(lambda: BUILT_IN.make_retention(name))


class KeepsOthers(Boundaries):
    """Landmarks that nobody asked about."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        return sorted({*landmarks.prompt_ends})


class KeepsTwice(Dense):
    """The last length, named twice."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        return [*lengths, *lengths[-1:]]


class KeepsTheLastOfAll(Dense):
    """The end of each piece, wherever it was cut."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        return lengths[-1:]


class KeepsByTurns(Dense):
    """Every other one of those it ever heard of."""

    def __init__(self) -> None:
        self.num_heard = 0

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        first, self.num_heard = self.num_heard % 2, self.num_heard + len(lengths)
        return lengths[first::2]


class EndsForNothing(EveryInterval):
    """At each length, though few are kept."""

    def first_end(self, lengths: range, landmarks: Landmarks) -> int | None:
        return next(iter(lengths), None)


class EndsLate(EveryInterval):
    """At the last of those kept."""

    def first_end(self, lengths: range, landmarks: Landmarks) -> int | None:
        return next(reversed(self._multiples(lengths)), None)


class EndsInPieces(EveryInterval):
    """Only where a piece begins."""

    def first_end(self, lengths: range, landmarks: Landmarks) -> int | None:
        end = super().first_end(lengths, landmarks)
        return end if end == next(iter(lengths), None) else None


@pytest.mark.parametrize(
    "policy",
    [
        KeepsOthers,
        KeepsTwice,
        KeepsTheLastOfAll,
        KeepsByTurns,
        partial(EndsForNothing, 96),
        partial(EndsLate, 48),
        partial(EndsInPieces, 48),
    ],
)
def test_a_retention_that_breaks_the_rules_is_caught(policy: Callable[[], Retention]) -> None:
    with pytest.raises(NotConforming):
        check_retention(policy)


class YieldsWhatIsKept(Boundaries):
    """One length after the other: who counts them, or asks twice, gets nothing."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        return (one for one in super().kept(lengths, landmarks))  # type: ignore[return-value]


def test_a_retention_that_answers_with_a_generator_is_caught() -> None:
    with pytest.raises(NotConforming, match="what is kept is a generator; it must be a sequence"):
        check_retention(YieldsWhatIsKept)


def test_a_policy_that_takes_a_number_is_to_be_checked_with_one() -> None:
    with pytest.raises(NotConforming, match=r"as in `lambda: EveryInterval\(2\)`"):
        check_retention(EveryInterval)  # type: ignore[arg-type]
    check_retention(lambda: EveryInterval(2))


# A pool that breaks its word under a policy, as if the policy had made it do so.
