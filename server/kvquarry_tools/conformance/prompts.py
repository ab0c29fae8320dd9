"""What a retention is asked about random prompts: as a whole, and piece by piece as engines ask."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvquarry_core.retention import ChunkEnding, Landmarks, Retention
from kvquarry_tools.conformance.errors import require

_UNITS = (1, 4, 16, 48)
_MOST_UNITS = 40


@dataclass(frozen=True, slots=True)
class RandomPrompt:
    """A prompt of so many tokens.

    Attributes:
        lengths: Those at which it may be asked about.
        landmarks: Where it is known to be gone on from.
    """

    lengths: range
    landmarks: Landmarks

    def pieces(self, rng: random.Random) -> Iterator[range]:
        """Its lengths as chunks of a prompt would cut them; some are empty."""
        num_lengths = len(self.lengths)
        cuts = sorted(rng.choices(range(num_lengths + 1), k=rng.randint(0, 5)))
        for first, end in itertools.pairwise([0, *cuts, num_lengths]):
            yield self.lengths[first:end]


def random_prompt(rng: random.Random) -> RandomPrompt:
    """A prompt whose landmarks may lie beyond it, or at nothing."""
    unit, num_units = rng.choice(_UNITS), rng.randint(1, _MOST_UNITS)
    places = [unit * rng.randint(0, _MOST_UNITS) for _ in range(rng.randint(1, 4))]
    num_ends = rng.randint(1, min(len(places), 2))
    landmarks = Landmarks(tuple(places[:num_ends]), tuple(places[num_ends:]))
    return RandomPrompt(range(unit, (num_units + 1) * unit, unit), landmarks)


def check_prompt(retention: Retention, prompt: RandomPrompt, rng: random.Random) -> None:
    """What is kept of a prompt does not depend on how it is cut, and chunks end where it is kept.

    Raises:
        NotConforming: It does, or they do not.
    """
    kept = _kept(retention, prompt.lengths, prompt.landmarks)
    pieces = list(prompt.pieces(rng))
    found = [one for piece in pieces for one in _kept(retention, piece, prompt.landmarks)]
    require(
        found == kept,
        f"of {prompt.lengths} {kept} are kept, but {found} when asked about {pieces}",
    )
    if isinstance(retention, ChunkEnding):
        for piece in pieces:
            _check_end(retention, piece, prompt.landmarks)


def _kept(retention: Retention, lengths: range, landmarks: Landmarks) -> list[int]:
    answer = retention.kept(lengths, landmarks)
    require(
        isinstance(answer, Sequence),
        f"what is kept is a {type(answer).__name__}; it must be a sequence, as a list is",
    )
    kept = list(answer)
    require(set(kept) <= set(lengths), f"{kept} are not all among the lengths {lengths}")
    require(kept == sorted(set(kept)), f"{kept} do not ascend, or name a length twice")
    return kept


def _check_end(retention: ChunkEnding, lengths: range, landmarks: Landmarks) -> None:
    end = retention.first_end(lengths, landmarks)
    if end is None:
        parts = [lengths[first:] for first in range(len(lengths))]
        ends_later = [retention.first_end(part, landmarks) for part in parts]
        require(not any(ends_later), f"a chunk ends nowhere in {lengths}, and at {ends_later}")
        return
    kept = _kept(retention, lengths, landmarks)
    require(end in kept, f"a chunk ends at {end}, and {kept} are kept: it ends for nothing")
    until, since = lengths[: lengths.index(end)], lengths[lengths.index(end) :]
    earlier = retention.first_end(until, landmarks)
    require(earlier is None, f"a chunk ends at {end} in {lengths}, and at {earlier} in {until}")
    same = retention.first_end(since, landmarks)
    require(same == end, f"a chunk ends at {end} in {lengths}, and at {same} in {since}")
