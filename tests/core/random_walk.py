"""A seeded engine's life: requests come, grow, commit and go in no order at all."""

import random
from collections.abc import Callable

from kvquarry_core.ids import GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, Pinned, Refusal
from kvquarry_core.plan import GroupKind
from tests.core import reference
from tests.core.prefill import commit_all, prefill
from tests.core.retaining_engine import RetainingEngine
from tests.core.small_pools import hashes

_MOST_REQUESTS = 6
_LETTERS = "ab"
#: About as long as a request lives, so that pins meet a full pool.
_LONGEST_PIN_S = 12
#: What prompts begin with, so that some of them share much and others little.
_DOCUMENTS = ("aaaaaaaaaaaa", "aaaabbbbaaaa", "bbbbbbbbbbbb")


class RandomWalk:
    """Puts random operations to an engine, the useful ones more often."""

    def __init__(self, engine: RetainingEngine, seed: int) -> None:
        self.engine = engine
        self.num_hits = self.num_refusals = self.num_pins = 0
        self._random = random.Random(seed)
        self._next_handle = 0
        self._has_windows = any(map(reference.is_windowed, engine.plan.groups))
        self._has_encoder = not reference.can_hit(engine.plan)
        self._operations: dict[Callable[[], None], int] = {
            self._admit: 30,
            self._take: 30,
            self._commit: 30,
            self._free: 14,
            self._begin_step: 10,
            self._grow: 8,
            self._drop: 6,
            self._settle: 5,
            self._lease: 6,
            self._commit_leased: 10,
            self._give_back: 4,
            self._grant_ahead: 6,
            self._pin: 3,
            self._unpin: 1,
            self._wait: 6,
            self._forget: 2,
            self._reset: 1,
        }

    def step(self) -> None:
        """One operation."""
        operations = list(self._operations)
        weights = list(self._operations.values())
        self._random.choices(operations, weights)[0]()

    def run(self, num_operations: int, *, checked_every: int = 1) -> None:
        """So many operations; all laws are checked after the first and every so many."""
        for number in range(num_operations):
            self.step()
            if number % checked_every == 0:
                self.engine.check()

    def end(self) -> None:
        """Free everything: all laws hold, and nothing is left."""
        self.finish()
        self.engine.check()
        self.engine.check_empty()

    def finish(self) -> None:
        """Free everything, and give the lease back."""
        for handle in list(self.engine.books.requests):
            self.engine.free(handle)
        for group, blocks in enumerate(self.engine.books.leased):
            self.engine.give_back(GroupId(group), list(blocks))
        self.engine.wait(_LONGEST_PIN_S)

    def _admit(self) -> None:
        if len(self.engine.books.requests) >= _MOST_REQUESTS:
            return
        rng, plan = self._random, self.engine.plan
        text = rng.choice(_DOCUMENTS)[: rng.randint(0, 12)] + rng.choice(["", "", "a", "b"])
        num_tokens = max(1, len(text) * plan.hash_tokens + rng.randrange(plan.hash_tokens))
        keep = [rng.randint(0, 1) for _ in plan.classes] if rng.random() < 0.3 else []
        ask = AdmitRequest(
            handle=Handle(self._next_handle),
            hashes=hashes(text),
            num_tokens=num_tokens,
            max_hit_tokens=rng.choice([num_tokens - 1, rng.randrange(num_tokens)]),
            max_grant_tokens=rng.randint(1, num_tokens),
            lookahead_tokens=rng.choice([0, 0, 1, 3]),
            must_fit_tokens=rng.choice([0, num_tokens]),
            keep_free_blocks=keep,
            states_are_leased=rng.random() < 0.3,
            in_flight_tokens=rng.choice([0, 1, num_tokens]) if self._has_windows else 0,
            encoder_tokens=rng.randrange(8) if self._has_encoder else 0,
            priority=rng.choice((0, 0, 0, 1, 3)),
        )
        self._next_handle += 1
        answer = self.engine.admit(ask, text)
        if isinstance(answer, Refusal):
            self.num_refusals += 1
            return
        self.num_hits += answer.hit_tokens > 0
        if rng.random() < 0.6:
            prefill(self.engine, ask.handle)
            if ask.states_are_leased:
                self._make_checkpoints(ask.handle)

    def _take(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        for group, blocks in enumerate(list(self.engine.books.requests[handle].granted)):
            if blocks and self._random.random() < 0.8:
                self.engine.take(handle, GroupId(group), self._random.randint(1, len(blocks)))

    def _commit(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        kind = KindId(self._random.randrange(len(self.engine.plan.kinds)))
        rows = self.engine.books.committable(handle, kind)
        if rows and self._random.random() < 0.3:
            self.engine.commit(handle, kind, *self._random.choice(rows))
        elif rows:
            commit_all(self.engine, handle)

    def _grow(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        self.engine.books.requests[handle].text += self._random.choice(_LETTERS)
        wanted = [self._random.choice([0, 0, 1, 2]) for _ in self.engine.plan.groups]
        self.num_refusals += isinstance(self.engine.grow(handle, wanted), Refusal)

    def _drop(self) -> None:
        handle = self._any_request()
        if handle is None:
            return
        group = GroupId(self._random.randrange(len(self.engine.plan.groups)))
        places = self.engine.books.requests[handle].held[group]
        if places:
            self.engine.drop(handle, group, self._random.randrange(len(places)))

    def _forget(self) -> None:
        plan = self.engine.plan
        group = GroupId(self._random.randrange(len(plan.groups)))
        hashed = self.engine.books.hashed()
        blocks = sorted(block for owner, block in hashed if owner == plan.class_of_group[group])
        if blocks:
            self.engine.forget(group, self._random.sample(blocks, 1))

    def _pin(self) -> None:
        name, seconds = self._random.choice("pqr"), self._random.randint(1, _LONGEST_PIN_S)
        text = self._random.choice(_DOCUMENTS)[: self._random.randint(1, 12)]
        self.num_pins += isinstance(self.engine.pin(name, text, seconds), Pinned)

    def _unpin(self) -> None:
        self.engine.unpin(self._random.choice("pqr"))

    def _wait(self) -> None:
        self.engine.wait(1)

    def _lease(self) -> None:
        wanted = [self._random.randint(0, 2) if self._is_state(g) else 0 for g in self._groups]
        self.num_refusals += isinstance(self.engine.lease(wanted), Refusal)

    def _commit_leased(self) -> None:
        handle = self._any_request()
        if handle is not None:
            self._make_checkpoints(handle)

    def _make_checkpoints(self, handle: Handle) -> None:
        """Of leased states, as far as there are any."""
        for kind, names in self.engine.possible_checkpoints(handle):
            self.engine.commit_leased(handle, kind, names[-1])

    def _give_back(self) -> None:
        group = GroupId(self._random.choice(self._groups))
        stock = self.engine.books.leased[group]
        num_blocks = self._random.randint(0, len(stock))
        self.engine.give_back(group, self._random.sample(stock, num_blocks))

    def _grant_ahead(self) -> None:
        requests = list(self.engine.books.requests)
        handles = self._random.sample(requests, min(2, len(requests)))
        self.engine.grant_ahead(handles, [self._random.randint(0, 3) for _ in handles])

    @property
    def _groups(self) -> range:
        return range(len(self.engine.plan.groups))

    def _is_state(self, group: int) -> bool:
        return self.engine.plan.groups[group].kind is GroupKind.RECURRENT_STATE

    def _settle(self) -> None:
        handle = self._any_request()
        if handle is not None:
            self.engine.settle(handle)

    def _free(self) -> None:
        handle = self._any_request()
        if handle is not None:
            self.engine.free(handle)

    def _begin_step(self) -> None:
        self.engine.begin_step()

    def _reset(self) -> None:
        self.engine.reset()

    def _any_request(self) -> Handle | None:
        requests = list(self.engine.books.requests)
        return self._random.choice(requests) if requests else None
