"""What could be hit by somebody who knows the future: a reference, no policy.

Requests run one after another, and memory holds anything anywhere: no blocks, slabs or running
requests take part of it. Whatever is used again last is evicted first, the deepest first among
equals. Of the states only those are kept that a later request resumes from: at the end of the
prefix it shares with everything before it. With states this is greedy and no proven bound, since
sizes differ and a state is worth nothing without the tokens before it.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of content.

    Attributes:
        token_bytes: Of one token in all layers.
        state_bytes: Of one checkpoint; 0 for models without states.
        unit_tokens: Hits are multiples of this, a multiple of the trace's unit.
    """

    token_bytes: int
    state_bytes: int
    unit_tokens: int


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What came of it.

    Attributes:
        prompt_tokens: Tokens of all prompts.
        hit_tokens: Those found.
        lengths: Of each request, the tokens of its prompt and those found.
        num_evictions: Units and states evicted.
    """

    prompt_tokens: int
    hit_tokens: int
    lengths: tuple[tuple[int, int], ...]
    num_evictions: int


class _What(Enum):
    TOKENS = 0
    STATE = 1


_Item = tuple[_What, int]


class Belady:
    """Replays a trace with knowledge of all of it."""

    def __init__(self, requests: Sequence[TraceRequest], sizes: Sizes, memory_bytes: int) -> None:
        self._requests = requests
        self._sizes = sizes
        self._free_bytes = memory_bytes
        self._step = sizes.unit_tokens // UNIT_TOKENS
        self._next_use: dict[_Item, int] = {}
        # The last use first; an entry counts only while it says what the cache says.
        self._order: list[tuple[int, int, int, int]] = []
        self._uses: defaultdict[_Item, list[int]] = defaultdict(list)
        self._num_evictions = 0

    def run(self, on_done: Callable[[int], None]) -> Foreseen:
        """Replay everything."""
        self._foresee()
        lengths = []
        for serial, request in enumerate(self._requests):
            hit_tokens = self._hit(request) * self._sizes.unit_tokens
            lengths.append((request.num_prompt_tokens, hit_tokens))
            self._keep(serial, request)
            on_done(serial + 1)
        return Foreseen(
            prompt_tokens=sum(length for length, _ in lengths),
            hit_tokens=sum(hit_tokens for _, hit_tokens in lengths),
            lengths=tuple(lengths),
            num_evictions=self._num_evictions,
        )

    def _units(self, request: TraceRequest) -> Sequence[int]:
        """Names of the prompt's full units."""
        num_units = request.num_prompt_tokens // self._sizes.unit_tokens
        return request.units[self._step - 1 : num_units * self._step : self._step]

    def _most_units(self, request: TraceRequest) -> int:
        return (request.num_prompt_tokens - 1) // self._sizes.unit_tokens

    def _foresee(self) -> None:
        """Who uses what, the last user first."""
        seen: set[int] = set()
        for serial, request in enumerate(self._requests):
            units = self._units(request)
            shared = _num_leading(units[: self._most_units(request)], seen)
            for unit in units[:shared]:
                self._uses[_What.TOKENS, unit].append(serial)
            if shared and self._sizes.state_bytes:
                self._uses[_What.STATE, units[shared - 1]].append(serial)
            seen.update(units)
        for users in self._uses.values():
            users.reverse()

    def _hit(self, request: TraceRequest) -> int:
        units = self._units(request)[: self._most_units(request)]
        num_hit = 0
        for unit in units:
            if (_What.TOKENS, unit) not in self._next_use:
                break
            num_hit += 1
        if self._sizes.state_bytes:
            while num_hit and (_What.STATE, units[num_hit - 1]) not in self._next_use:
                num_hit -= 1
        return num_hit

    def _keep(self, serial: int, request: TraceRequest) -> None:
        """Keep of a prompt what will be used again; make room by what is used last."""
        for depth, unit in enumerate(self._units(request)):
            for what in _What:
                self._keep_item((what, unit), serial, depth)
        while self._free_bytes < 0:
            self._evict()

    def _keep_item(self, item: _Item, serial: int, depth: int) -> None:
        users = self._uses.get(item, [])
        while users and users[-1] <= serial:
            users.pop()
        was_kept = item in self._next_use
        if users:
            self._next_use[item] = users[-1]
            heapq.heappush(self._order, (-users[-1], -depth, item[0].value, item[1]))
            self._free_bytes -= 0 if was_kept else self._bytes(item)
        elif was_kept:
            del self._next_use[item]
            self._free_bytes += self._bytes(item)

    def _evict(self) -> None:
        use, _, what, unit = heapq.heappop(self._order)
        item = (_What(what), unit)
        if self._next_use.get(item) == -use:
            del self._next_use[item]
            self._free_bytes += self._bytes(item)
            self._num_evictions += 1

    def _bytes(self, item: _Item) -> int:
        if item[0] is _What.STATE:
            return self._sizes.state_bytes
        return self._sizes.token_bytes * self._sizes.unit_tokens


def _num_leading(units: Sequence[int], seen: set[int]) -> int:
    for position, unit in enumerate(units):
        if unit not in seen:
            return position
    return len(units)
