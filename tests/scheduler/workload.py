"""Random requests that share prefixes, and what happens to them, made from a seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scheduler.language import Text


@dataclass(frozen=True)
class Arrival:
    """A request comes in.

    Attributes:
        request_id: Its name.
        prompt: Its text.
        max_tokens: How long its answer is.
        wishes: Extra arguments beside its sampling parameters.
    """

    request_id: str
    prompt: tuple[int, ...]
    max_tokens: int
    wishes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Turn:
    """What happens around one turn of the engine's loop.

    Attributes:
        arrivals: Requests submitted before it.
        aborts: Requests aborted before it.
        late_aborts: Requests aborted while its model runs.
        resets_running: Whether the cache is reset under the running requests before it.
    """

    arrivals: tuple[Arrival, ...] = ()
    aborts: tuple[str, ...] = ()
    late_aborts: tuple[str, ...] = ()
    resets_running: bool = False


@dataclass(frozen=True)
class Phase:
    """Turns with things happening, then as many without as it takes to finish everything."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Mix:
    """How requests look, in tokens, and how often things happen, in percent.

    Attributes:
        arrivals_per_turn: Requests that come in per turn, on average.
        branch_tokens: The longest piece of text that prefixes share at a time.
        suffix_tokens: The longest unique end of a prompt.
        prompt_tokens: The longest prompt.
        output_tokens: The longest output.
        repeat_percent: Arrivals that send an earlier prompt again.
        continue_percent: Arrivals that go on from an earlier request's prompt and output.
        twin_percent: Arrivals that come with an equal one in the same turn.
        abort_percent: Arrivals that are aborted at some time.
        reset_percent: Turns before which the cache is reset under the running requests.
        wish_percent: Arrivals that want something of the cache.
    """

    arrivals_per_turn: float = 0.25
    branch_tokens: int = 50
    suffix_tokens: int = 40
    prompt_tokens: int = 240
    output_tokens: int = 40
    repeat_percent: int = 15
    continue_percent: int = 15
    twin_percent: int = 12
    abort_percent: int = 12
    reset_percent: int = 0
    wish_percent: int = 0


@dataclass
class _Writer:
    """Makes up prompts that share prefixes like the paths of a tree."""

    rng: random.Random
    mix: Mix
    prefixes: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    sent: list[Arrival] = field(default_factory=list)
    num_written: int = 0

    def arrivals(self) -> list[Arrival]:
        """One request, or two equal ones."""
        first = self._arrival(self._prompt())
        if self.rng.randrange(100) >= self.mix.twin_percent:
            return [first]
        return [first, self._arrival(first.prompt)]

    def _arrival(self, prompt: tuple[int, ...]) -> Arrival:
        output = self.rng.randint(1, self.mix.output_tokens)
        arrival = Arrival(f"r{self.num_written}", prompt, output, self._wishes())
        self.num_written += 1
        self.sent.append(arrival)
        return arrival

    def _wishes(self) -> tuple[tuple[str, Any], ...]:
        """A pin that outlasts the run, or the end of one, and a priority."""
        if not self.mix.wish_percent or self.rng.randrange(100) >= self.mix.wish_percent:
            return ()
        pin_s = self.rng.choice((3600, 3600, 0))
        return (("kvquarry_pin_s", pin_s), ("kvquarry_priority", self.rng.randrange(4)))

    def _prompt(self) -> tuple[int, ...]:
        luck = self.rng.randrange(100)
        if self.sent and luck < self.mix.repeat_percent:
            return self.rng.choice(self.sent[-40:]).prompt
        if self.sent and luck < self.mix.repeat_percent + self.mix.continue_percent:
            return self._continuation(self.rng.choice(self.sent[-40:]))
        return self._fit(self._prefix() + self._words(self.mix.suffix_tokens))

    def _continuation(self, earlier: Arrival) -> tuple[int, ...]:
        text = Text(earlier.prompt)
        length = len(earlier.prompt) + self.rng.randint(0, earlier.max_tokens)
        return self._fit(tuple(text.tokens(0, length)) + self._words(self.mix.suffix_tokens))

    def _prefix(self) -> tuple[int, ...]:
        """A path of the tree, now and then with a new branch."""
        prefix = self.rng.choice(self.prefixes[-60:])
        if len(prefix) < self.mix.prompt_tokens and self.rng.random() < 0.4:
            prefix = prefix + self._words(self.mix.branch_tokens)
            self.prefixes.append(prefix)
        return prefix

    def _words(self, longest: int) -> tuple[int, ...]:
        return tuple(self.rng.randint(1, 900) for _ in range(self.rng.randint(1, longest)))

    def _fit(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        return prompt[: self.mix.prompt_tokens]


def make_script(seed: int, mixes: Sequence[Mix], *, turns_per_phase: int) -> list[Phase]:
    """One phase per mix. The engine is idle at the end of each; prefixes live on."""
    rng = random.Random(seed)
    writer = _Writer(rng, mixes[0])
    return [_phase(rng, mix, writer, turns_per_phase) for mix in mixes]


def _phase(rng: random.Random, mix: Mix, writer: _Writer, num_turns: int) -> Phase:
    writer.mix = mix
    arrivals: list[list[Arrival]] = [[] for _ in range(num_turns)]
    aborts: list[list[str]] = [[] for _ in range(num_turns)]
    late_aborts: list[list[str]] = [[] for _ in range(num_turns)]
    for turn in range(num_turns):
        while rng.random() < mix.arrivals_per_turn / (1 + mix.arrivals_per_turn):
            arrivals[turn] += writer.arrivals()
        for arrival in arrivals[turn]:
            when = turn + int(rng.expovariate(1 / 12))
            if when < num_turns and rng.randrange(100) < mix.abort_percent:
                rng.choice((aborts, late_aborts))[when].append(arrival.request_id)
    resets = [rng.random() * 100 < mix.reset_percent for _ in range(num_turns)]
    columns = zip(arrivals, aborts, late_aborts, resets, strict=True)
    return Phase(tuple(Turn(tuple(a), tuple(b), tuple(c), d) for a, b, c, d in columns))
