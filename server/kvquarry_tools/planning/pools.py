"""Two ways to cut the same memory, asked the same questions."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvquarry_core.plan import GroupSpec, Plan
from kvquarry_core.reserve import DecodeReserve
from kvquarry_tools.models import StockLayout
from kvquarry_tools.planning import demand
from kvquarry_tools.search import bracket

#: What fits up to here has no end: windows and states do not grow with a request.
_NO_END = 1 << 40


class Pool(Protocol):
    """A stretch of memory that holds blocks of some groups."""

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        """The groups whose blocks it holds."""
        ...

    def holds(self, blocks: Sequence[int]) -> bool:
        """Whether it holds so many blocks of each group at once, when it is empty otherwise."""
        ...

    def admits(self, num_requests: int, num_tokens: int) -> bool:
        """Whether so many requests of ``num_tokens`` run at once: the last is let in, too."""
        ...


@dataclass(frozen=True, slots=True)
class MixedPool:
    """kvquarry's pool: blocks of each group's own size."""

    plan: Plan

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        """See :class:`Pool`."""
        return self.plan.groups

    def holds(self, blocks: Sequence[int]) -> bool:
        """See :class:`Pool`; the core's own answer, by which requests are admitted."""
        return self.plan.could_hold(self.plan.by_class(blocks))

    def admits(self, num_requests: int, num_tokens: int) -> bool:
        """See :class:`Pool`; the last one is let in beside what stays free for the others."""
        held = self.plan.by_class(_of_all(self, num_requests, num_tokens))
        free = self.kept_free(num_requests - 1, num_tokens)
        return self.plan.could_hold(list(map(operator.add, held, free)))

    def kept_free(self, num_running: int, num_tokens: int) -> list[int]:
        """Blocks by class that stay free for those that run, when one of so many tokens comes.

        Of the prompts only the newcomer's has chunks ahead, if it passes a block's end at all.
        """
        num_prompts = int(num_tokens > max(group.block_tokens for group in self.groups))
        return DecodeReserve(self.plan).blocks(num_running, num_prompts)


@dataclass(frozen=True, slots=True)
class UniformPool:
    """Stock vLLM's pool: blocks of one size, of which block 0 is the null block."""

    layout: StockLayout
    num_blocks: int

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        """See :class:`Pool`."""
        return self.layout.groups

    def holds(self, blocks: Sequence[int]) -> bool:
        """See :class:`Pool`."""
        return sum(blocks) < self.num_blocks

    def admits(self, num_requests: int, num_tokens: int) -> bool:
        """See :class:`Pool`; vLLM lets in whoever fits."""
        return self.holds(_of_all(self, num_requests, num_tokens))


def most_requests(pool: Pool, num_tokens: int) -> int:
    """How many requests of ``num_tokens`` the pool lets run at once while they decode."""
    return _most(lambda number: pool.admits(number, num_tokens)) or 0


def most_held(pool: Pool, num_tokens: int) -> int:
    """How many requests of ``num_tokens`` the pool has memory for, with nothing to spare."""
    return _most(lambda number: pool.holds(_of_all(pool, number, num_tokens))) or 0


def runs_any(pool: Pool) -> bool:
    """Whether a request of one token can run alone."""
    return _runs_alone(pool, 1)


def longest_request(pool: Pool) -> int | None:
    """Tokens of the longest request that can run alone, 0 for none; None: there is no longest."""
    return _most(lambda num_tokens: _runs_alone(pool, num_tokens))


def most_cached_tokens(pool: Pool, checkpoint_tokens: int) -> int:
    """Tokens of cached prefixes that the pool holds, each so many with their checkpoint."""

    def fits(num_checkpoints: int) -> bool:
        return pool.holds(demand.cached(pool.groups, num_checkpoints, checkpoint_tokens))

    return (_most(fits) or 0) * checkpoint_tokens


def _runs_alone(pool: Pool, num_tokens: int) -> bool:
    return pool.holds(demand.at_most(pool.groups, num_tokens))


def _of_all(pool: Pool, num_requests: int, num_tokens: int) -> list[int]:
    """Blocks by group of so many requests that decode."""
    return [num_requests * blocks for blocks in demand.resident(pool.groups, num_tokens)]


def _most(fits: Callable[[int], bool]) -> int | None:
    """The largest number that fits; whatever is below one that fits, fits too.

    0 for none, None where no end is in sight.
    """
    found = bracket(fits, 0, _NO_END)
    return None if found is None else found[0]
