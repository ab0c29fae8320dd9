"""An engine that knows its pool and abuses it: most operations are right, or nearly so.

Operations drawn blindly rarely get past the first check. This one looks into the pool for blocks
that exist, and then gets one thing in four wrong.
"""

import math
from random import Random
from typing import TypeVar

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, AheadRequest, GrowRequest, LeaseRequest, PinRequest
from kvquarry_core.pool import Pool
from kvquarry_server.operations import (
    BeginStep,
    Commit,
    Drop,
    Forget,
    Free,
    GiveBack,
    Operation,
    ResetCache,
    Settle,
    Take,
    Unpin,
    Unreadable,
)

Value = TypeVar("Value")

_UINT32 = (1 << 32) - 1
_NUM_PROMPTS = 1


class HostileEngine:
    """Makes up operations for one pool."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._random = Random(seed)
        self._prompts: dict[Handle, int] = {}

    def operation(self) -> Operation:
        """The next one."""
        makers = (
            *(self._take, self._commit) * 8,
            *(self._admit, self._free, self._begin_step) * 4,
            *(self._drop, self._grow, self._lease, self._ahead, self._give_back) * 2,
            *(self._settle, self._forget, self._reset_cache, self._unreadable),
            *(self._pin, self._unpin),
        )
        return self._random.choice(makers)()

    def batch(self) -> list[Operation]:
        """Several."""
        return [self.operation() for _ in range(self._random.randrange(6))]

    def _admit(self) -> AdmitRequest:
        handle = Handle(self._odd(self._random.randrange(12)))
        prompt = self._random.randrange(_NUM_PROMPTS)
        self._prompts.setdefault(handle, prompt)
        num_tokens = self._random.randrange(1, 60)
        return AdmitRequest(
            handle=handle,
            hashes=[self._hash(prompt, index) for index in range(num_tokens // 4)],
            num_tokens=self._odd(num_tokens),
            max_hit_tokens=self._odd(num_tokens - 1),
            max_grant_tokens=self._odd(self._random.randrange(1, 40)),
            lookahead_tokens=self._odd(0),
            must_fit_tokens=self._odd(0),
            keep_free_blocks=self._random.choice([*[[]] * 8, [1, 0], [1]]),
            states_are_leased=self._random.random() < 0.3,
            priority=self._odd(self._random.choice((0, 1, 3))),
        )

    def _grow(self) -> GrowRequest:
        wanted = [self._odd(self._random.randrange(3)) for _ in self._pool.plan.groups]
        return GrowRequest(self._handle(), wanted)

    def _lease(self) -> LeaseRequest:
        wanted = [self._odd(self._random.randrange(3)) for _ in self._pool.plan.groups]
        return LeaseRequest(wanted)

    def _ahead(self) -> AheadRequest:
        handles = [self._handle() for _ in range(2)]
        counts = [self._odd(self._random.randrange(3)) for _ in handles]
        return AheadRequest(handles, self._maybe_short(counts))

    def _give_back(self) -> GiveBack:
        group = self._group()
        leased = sorted(self._pool.lease.blocks[group] if group in range(3) else ())
        blocks = [BlockId(self._odd(self._random.choice(leased or [1])))]
        return GiveBack([group], [1], self._maybe_short(blocks))

    def _take(self) -> Take:
        rows = []
        for handle in {self._handle() for _ in range(3)}:
            group = self._group()
            num_granted = len(self._of(handle, group, "granted"))
            rows.append((handle, group, self._odd(self._random.randint(0, num_granted))))
        handles, groups, counts = zip(*rows, strict=True)
        return Take(list(handles), list(groups), self._maybe_short(list(counts)))

    def _commit(self) -> Commit:
        handles, kinds, counts, hashes, blocks, places = [], [], [], [], [], []
        for _ in range(self._random.choice((1, 1, 1, 2))):
            handle, kind = self._handle(), self._random.randrange(len(self._pool.plan.kinds))
            members = self._pool.plan.kinds[kind]
            num_held = min(len(self._of(handle, group, "held")) for group in members)
            position = self._random.randrange(num_held or 1)
            handles.append(handle)
            kinds.append(KindId(self._odd(kind)))
            if self._random.random() < 0.05:
                counts.append(0)
                places.append(0)
                continue
            counts.append(1)
            # A state sums up two blocks' tokens, or four.
            index = self._random.choice((1, 3)) if len(members) == 1 else position
            if self._random.random() < 0.3:
                places.append(self._odd(index + 1))
            else:
                places.append(0)
                hashes.append(self._hash(self._prompts.get(handle, 0), index))
            if self._random.random() < 0.3:
                leased = [sorted(self._pool.lease.blocks[group]) for group in members]
                blocks += [BlockId(self._odd(row[0] if row else 1)) for row in leased]
                continue
            for group in members:
                held = self._of(handle, group, "held")
                blocks.append(BlockId(self._odd(held[position] if num_held else 1)))
        return Commit(handles, kinds, counts, hashes, self._maybe_short(blocks), places)

    def _drop(self) -> Drop:
        handle, group = self._handle(), self._group()
        held = self._of(handle, group, "held")
        block = BlockId(self._odd(self._random.choice(held) if held else 1))
        times = self._random.randrange(1, 3)
        return Drop([handle], [group], [self._odd(times)], self._maybe_short([block] * times))

    def _settle(self) -> Settle:
        return Settle([self._handle(), self._handle()])

    def _free(self) -> Free:
        return Free([self._handle() for _ in range(self._random.choice((1, 1, 1, 2)))])

    def _begin_step(self) -> BeginStep:
        return BeginStep()

    def _forget(self) -> Forget:
        return Forget(self._group(), [BlockId(self._odd(self._random.randrange(24)))])

    def _reset_cache(self) -> ResetCache:
        return ResetCache()

    def _pin(self) -> PinRequest:
        hashes = [self._hash(0, index) for index in range(self._random.randrange(9))]
        ttl_s = self._random.choice((1.0, 60.0, 0.0, math.nan))
        return PinRequest(self._random.choice("pq "), hashes, ttl_s)

    def _unpin(self) -> Unpin:
        return Unpin(["p", self._random.choice("qx")])

    def _unreadable(self) -> Unreadable:
        return Unreadable()

    def _handle(self) -> Handle:
        known = list(self._pool.requests) or [Handle(0)]
        return Handle(self._odd(self._random.choice(known)))

    def _group(self) -> GroupId:
        return GroupId(self._odd(self._random.randrange(len(self._pool.plan.groups))))

    def _of(self, handle: Handle, group: GroupId, what: str) -> list[BlockId]:
        record = self._pool.requests.get(handle)
        if record is None or group >= len(self._pool.plan.groups):
            return []
        blocks: list[BlockId] = getattr(record, what)[group]
        return blocks

    def _odd(self, number: int) -> int:
        """A number, or now and then one beside it, or one from the end of the wire's type."""
        match self._random.randrange(100):
            case 0:
                return number + 1
            case 1:
                return max(number - 1, 0)
            case 2:
                return self._random.choice([0, _UINT32])
            case _:
                return number

    def _maybe_short(self, column: list[Value]) -> list[Value]:
        return column[:-1] if self._random.randrange(20) == 0 else column

    @staticmethod
    def _hash(prompt: int, index: int) -> BlockHash:
        return BlockHash(f"{prompt}:{index}".encode())
