"""Which checkpoints stay in the cache.

A state costs as much memory as hundreds or thousands of tokens of attention, so most are not
worth keeping, and so it is with the windows of sliding attention. Source: vLLM's
``prefix_cache_retention_interval``; Marconi (arXiv 2411.19379) for the junction.

Unlike the other policies a retention runs where the engine runs: what it does not keep never
reaches the pool.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Where a request's text is known to be gone on from, as lengths of prefixes of it.

    Attributes:
        prompt_ends: The end of the prompt, less its last token, which is computed in any case; two
            of them where a draft model has later requests resume earlier.
        junctions: Where another request's longer prefix parts from it; likewise, or empty.
    """

    prompt_ends: tuple[int, ...] = ()
    junctions: tuple[int, ...] = ()

    def aligned(self, unit_tokens: int) -> "Landmarks":
        """The same where hits end at multiples of ``unit_tokens``."""
        return Landmarks(
            tuple([length // unit_tokens * unit_tokens for length in self.prompt_ends]),
            tuple([length // unit_tokens * unit_tokens for length in self.junctions]),
        )


@runtime_checkable
class Retention(Protocol):
    """Chooses the lengths at which later requests may resume.

    One object serves all requests of an engine, and is asked about a prompt piece by piece, as it
    is computed: whether a length is kept must depend on nothing but the length and the landmarks.
    """

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        """Those of some lengths whose checkpoint stays.

        Args:
            lengths: Multiples of its step, ascending.
            landmarks: Of the request, at multiples of what hits end at.

        Returns:
            Some of ``lengths``, ascending, each once.
        """
        ...


@runtime_checkable
class ChunkEnding(Retention, Protocol):
    """Keeps states where vLLM would not end a chunk by itself, so that there would be none.

    vLLM writes a state where a chunk of a prompt ends. It ends one at the last block boundary of
    the prompt, at a junction, and wherever the tokens of a step are used up. Every other end costs
    a step of the request's own.
    """

    def first_end(self, lengths: range, landmarks: Landmarks) -> int | None:
        """The first of some lengths at which a chunk must end; None for none of them.

        One of those that :meth:`kept` names for the same arguments.
        """
        ...


class Dense:
    """Keeps all there is: one where a chunk of a prompt ended, one per block decoded."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        """See :meth:`Retention.kept`."""
        return lengths


class Boundaries:
    """Keeps the end of the prompt and junctions, where requests have shown that they resume."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        """See :meth:`Retention.kept`."""
        return _among(lengths, landmarks.prompt_ends + landmarks.junctions)


class LastBoundary:
    """Keeps the end of the prompt alone: for conversations, whose turns go on from there."""

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        """See :meth:`Retention.kept`."""
        return _among(lengths, landmarks.prompt_ends)


@dataclass(frozen=True, slots=True)
class Interval:
    """Keeps the boundaries, and one per interval besides where a chunk happens to end there.

    Attributes:
        interval_tokens: How far apart.
    """

    interval_tokens: int

    def kept(self, lengths: range, landmarks: Landmarks) -> Sequence[int]:
        """See :meth:`Retention.kept`."""
        proven = _among(lengths, landmarks.prompt_ends + landmarks.junctions)
        periodic = self._multiples(lengths)
        return sorted({*periodic, *proven}) if proven else periodic

    def _multiples(self, lengths: range) -> range:
        step = math.lcm(lengths.step, self.interval_tokens)
        return range(-(-lengths.start // step) * step, lengths.stop, step)


class EveryInterval(Interval):
    """Keeps the boundaries, and one per interval besides: chunks end there."""

    __slots__ = ()

    def first_end(self, lengths: range, landmarks: Landmarks) -> int | None:
        """See :meth:`ChunkEnding.first_end`."""
        return next(iter(self._multiples(lengths)), None)


#: What needs no other package. The engine's own setting, unless somebody chooses.
RETENTIONS: dict[str, Callable[..., Retention | None]] = {
    "engine": lambda: None,
    "dense": Dense,
    "boundaries": Boundaries,
    "last": LastBoundary,
    "every-N": EveryInterval,
}


def _among(lengths: range, places: Iterable[int]) -> list[int]:
    """Those of a few places that are among the lengths, ascending, each once."""
    found = [place for place in places if place in lengths]
    return found if len(found) < 2 else sorted(set(found))
