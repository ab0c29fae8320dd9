"""Requests that come, grow, leave content behind and go, in no order at all."""

import operator
import random
from collections.abc import Callable, Sequence

from kvquarry_core.ids import BlockHash, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    AdmitRequest,
    Grant,
    PinRequest,
    Refusal,
    RefusalCause,
    moves_of,
)
from kvquarry_core.plan import GroupKind
from kvquarry_core.pool import Pool
from kvquarry_core.room import Room
from kvquarry_core.usage import usage_of
from kvquarry_tools.conformance.errors import NotConforming

_MOST_REQUESTS = 6
#: What prompts begin with, one letter a token, so that some share much and others little.
_DOCUMENTS = ("aaaaaaaaaa", "aaaabbbbaa", "bbbbbbbbbb", "cccccccccc")


class RandomLife:
    """Puts random operations to a pool and checks each of its answers."""

    def __init__(self, pool: Pool, rng: random.Random) -> None:
        self._pool = pool
        self._random = rng
        self._next_handle = 0
        self._now_s = 0.0
        self._empty = usage_of(pool)
        self._operations: dict[Callable[[], None], int] = {
            self._admit: 30,
            self._grow: 25,
            self._free: 15,
            self._drop: 20,
            self._lease: 10,
            self._give_back: 6,
            self._begin_step: 12,
            self._pin: 3,
            self._pass_time: 3,
            self._run_alone: 1,
        }

    def step(self) -> None:
        """One operation, and every law after it."""
        operations, weights = list(self._operations), list(self._operations.values())
        self._random.choices(operations, weights)[0]()
        check_integrity(self._pool)

    def finish(self) -> None:
        """Everybody goes; a pool without requests and content is as empty as it was at first."""
        self._drain()
        self._pool.reset_cache()
        check_integrity(self._pool)
        if usage_of(self._pool) != self._empty:
            raise NotConforming("something is left in a pool that nobody uses")

    # Operations.

    def _admit(self) -> None:
        if len(self._pool.requests) >= _MOST_REQUESTS:
            return
        before, room = self._state(), self._pool.store.room()
        prompt = self._prompt()
        chunk = self._random.choice([len(prompt), self._random.randint(1, len(prompt))])
        answer = self._pool.admit(self._request(prompt, chunk))
        if isinstance(answer, Refusal):
            self._must_be_as(before)
            is_short = answer.cause is RefusalCause.SHORTAGE and not answer.hit_tokens
            if is_short and _fits(room, answer.wanted_blocks):
                raise NotConforming(f"{answer.wanted_blocks} blocks fit, and nobody was admitted")
            return
        handle = Handle(self._next_handle - 1)
        self._take_all(handle)
        if self._random.random() < 0.8:
            self._commit(handle, prompt)

    def _grow(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        wanted = [self._random.choice([0, 0, 1, 2]) for _ in self._pool.plan.groups]
        self._must_be_granted_iff_it_fits(wanted, lambda: self._pool.grow(handle, wanted))
        self._take_all(handle)

    def _lease(self) -> None:
        wanted = [
            self._random.randint(0, 2) if spec.kind is GroupKind.RECURRENT_STATE else 0
            for spec in self._pool.plan.groups
        ]
        self._must_be_granted_iff_it_fits(wanted, lambda: self._pool.lease_blocks(wanted))

    def _free(self) -> None:
        handle = self._any_request()
        if handle is not None:
            self._pool.free(handle)

    def _drop(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        group = GroupId(self._random.randrange(len(self._pool.plan.groups)))
        held = list(self._pool.requests[handle].held[group])
        self._pool.drop_blocks(handle, group, self._random.sample(held, len(held) // 2))

    def _give_back(self) -> None:
        for group, blocks in enumerate(self._pool.lease.blocks):
            self._pool.give_back(GroupId(group), sorted(blocks)[: self._random.randint(0, 2)])

    def _begin_step(self) -> None:
        self._pool.begin_step()

    def _pin(self) -> None:
        """Content that no policy may touch; now and then it gives way."""
        self._pool.pin(PinRequest(self._random.choice("pq"), _hashes(self._prompt()), 5.0))

    def _pass_time(self) -> None:
        self._now_s += 1.0
        self._pool.note_time(self._now_s)

    def _run_alone(self) -> None:
        """Who was let in because all of it fits gets all of it, piece by piece, when alone."""
        self._drain()
        prompt = self._prompt()
        if isinstance(self._pool.admit(self._request(prompt, 1)), Refusal):
            return
        handle = Handle(self._next_handle - 1)
        record = self._pool.requests[handle]
        groups = list(map(GroupId, range(len(self._pool.plan.groups))))
        while any(record.promise.owed(group) for group in groups):
            self._take_all(handle)
            wanted = [min(record.promise.owed(group), 1) for group in groups]
            if not isinstance(self._pool.grow(handle, wanted), Grant):
                raise NotConforming(f"a promise was broken: {wanted} more blocks were refused")
            check_integrity(self._pool)

    # Laws.

    def _must_be_granted_iff_it_fits(
        self, wanted: Sequence[int], ask: Callable[[], Grant | Refusal]
    ) -> None:
        """Asked for blocks, the pool grants what fits; what it owes to others fits afterwards."""
        before, room = self._state(), self._pool.store.room()
        demand = self._pool.plan.by_class(wanted)
        num_broken = self._pool.pins.num_broken
        answer = ask()
        fits = _fits(room, demand)
        if isinstance(answer, Refusal):
            self._must_be_as(before)
            if fits:
                raise NotConforming(f"{demand} blocks by class fit and were refused")
            return
        made_way = bool(moves_of(answer)) or self._pool.pins.num_broken > num_broken
        if not (fits or made_way):
            raise NotConforming(f"{demand} blocks by class did not fit and were granted")
        if fits and self._pool.pins.num_broken > num_broken:
            raise NotConforming("a pin gave way to what fits anyhow")
        owed = list(self._pool.requests.owed)
        in_all = list(map(operator.add, demand, owed))
        if fits and _fits(room, in_all) and not _fits(self._pool.store.room(), owed):
            raise NotConforming(f"{owed} blocks by class were promised and fit no longer")

    def _state(self) -> tuple[object, ...]:
        store = self._pool.store
        return usage_of(self._pool), tuple(store.num_evictions), tuple(store.num_moves)

    def _must_be_as(self, before: tuple[object, ...]) -> None:
        if self._state() != before:
            raise NotConforming("a refusal evicted, moved or took something")

    # Requests.

    def _prompt(self) -> str:
        return self._random.choice(_DOCUMENTS)[: self._random.randint(1, 9)] + self._random.choice(
            "abc"
        )

    def _request(self, prompt: str, max_grant_tokens: int) -> AdmitRequest:
        handle, self._next_handle = Handle(self._next_handle), self._next_handle + 1
        return AdmitRequest(
            handle=handle,
            hashes=_hashes(prompt),
            num_tokens=len(prompt),
            max_hit_tokens=len(prompt) - 1,
            max_grant_tokens=max_grant_tokens,
            must_fit_tokens=len(prompt),
            priority=self._random.choice((0, 0, 1, 2)),
        )

    def _take_all(self, handle: Handle) -> None:
        for group, granted in enumerate(list(self._pool.requests[handle].granted)):
            self._pool.take(handle, GroupId(group), len(granted))

    def _commit(self, handle: Handle, prompt: str) -> None:
        """All attention that has no hash, and the state at the end."""
        plan, store = self._pool.plan, self._pool.store
        held = self._pool.requests[handle].held
        for kind in map(KindId, range(len(plan.kinds))):
            members = plan.kinds[kind]
            names = _hashes(prompt)[: len(held[0])]
            if plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE:
                names = names[-1:]
            columns = [held[group][-len(names) :] for group in members]
            for name, row in zip(names, list(zip(*columns, strict=True)), strict=False):
                if not store.contents.is_hashed(plan.class_of_kind(kind), row[0]):
                    self._pool.commit(handle, kind, name, row)

    def _drain(self) -> None:
        for handle in list(self._pool.requests):
            self._pool.free(handle)
        for group, blocks in enumerate(self._pool.lease.blocks):
            self._pool.give_back(GroupId(group), sorted(blocks))
        self._pool.begin_step()

    def _any_request(self) -> Handle | None:
        requests = list(self._pool.requests)
        return self._random.choice(requests) if requests else None


def _fits(room: Room, demand: Sequence[int]) -> bool:
    return room.num_spare_slabs(demand) >= 0


def _hashes(prompt: str) -> list[BlockHash]:
    """Chained: each names all letters before it."""
    return [BlockHash(prompt[:end].encode()) for end in range(1, len(prompt) + 1)]
