"""Pools of one to three size classes against naive books, by hypothesis.

Every answer is compared with what the books expect, the content of every hit block with what its
hash names, and after each step all laws are checked.
"""

from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest, PinRefusal, Refusal
from kvquarry_core.plan import GroupKind, Plan
from tests.core.prefill import prefill
from tests.core.relocating_engine import RelocatingEngine
from tests.core.retaining_engine import RetainingEngine
from tests.core.small_pools import hashes
from tests.core.snapshot import snapshot
from tests.strategies import PROMPTS, small_plans


class PoolMachine(RuleBasedStateMachine):
    """One engine that does whatever it may."""

    #: Operations of all machines so far.
    num_operations: ClassVar[int] = 0
    engine_type: ClassVar[type[RetainingEngine]] = RetainingEngine
    engine: RetainingEngine

    @initialize(plan=small_plans())
    def open(self, plan: Plan) -> None:
        self.engine = self.engine_type(plan)
        self.next_handle = 0
        # Laws are checked once when a pool was opened, and then after each operation.
        PoolMachine.num_operations -= 1

    @rule(text=PROMPTS, data=st.data())
    def admit(self, text: str, data: st.DataObject) -> None:
        plan = self.engine.plan
        num_tokens = len(text) * plan.hash_tokens + data.draw(st.integers(0, plan.hash_tokens - 1))
        num_tokens = max(num_tokens, 1)
        ask = AdmitRequest(
            handle=Handle(self.next_handle),
            hashes=hashes(text),
            num_tokens=num_tokens,
            max_hit_tokens=data.draw(st.integers(0, num_tokens - 1)),
            max_grant_tokens=data.draw(st.integers(1, num_tokens)),
            lookahead_tokens=data.draw(st.sampled_from([0, 0, 2])),
            must_fit_tokens=data.draw(st.sampled_from([0, num_tokens])),
            keep_free_blocks=data.draw(
                st.sampled_from([(), [1] * len(plan.classes)]), label="keep free"
            ),
            states_are_leased=data.draw(st.booleans(), label="states are leased"),
            in_flight_tokens=data.draw(st.sampled_from([0, 1, num_tokens]), label="in flight"),
            encoder_tokens=data.draw(st.sampled_from([0, 1, 7]), label="encoder"),
            priority=data.draw(st.sampled_from([0, 0, 1, 3]), label="priority"),
        )
        self.next_handle += 1
        before = snapshot(self.engine.pool)
        if isinstance(self.engine.admit(ask, text), Refusal):
            assert snapshot(self.engine.pool) == before

    @rule(text=PROMPTS)
    def serve(self, text: str) -> None:
        """A request's whole life, so that there is something to hit."""
        handle = self._prefill(text)
        if handle in self.engine.books.requests:
            self.engine.free(handle)
            self.engine.begin_step()

    @rule(text=PROMPTS)
    def prefill(self, text: str) -> None:
        self._prefill(text)

    def _prefill(self, text: str) -> Handle:
        num_tokens = len(text) * self.engine.plan.hash_tokens + 1
        handle = Handle(self.next_handle)
        self.next_handle += 1
        ask = AdmitRequest(handle, hashes(text), num_tokens, num_tokens - 1, num_tokens)
        if not isinstance(self.engine.admit(ask, text), Refusal):
            prefill(self.engine, handle)
        return handle

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        handle = self.any_request(data)
        for group, blocks in enumerate(list(self.engine.books.requests[handle].granted)):
            if blocks:
                num_blocks = data.draw(st.integers(1, len(blocks)))
                self.engine.take(handle, GroupId(group), num_blocks)

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        handle = self.any_request(data)
        self.engine.books.requests[handle].text += data.draw(st.sampled_from("ab"))
        wanted = [data.draw(st.integers(0, 4)) for _ in self.engine.plan.groups]
        before = snapshot(self.engine.pool)
        if isinstance(self.engine.grow(handle, wanted), Refusal):
            assert snapshot(self.engine.pool) == before

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.engine.settle(self.any_request(data))

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        handle = self.any_request(data)
        kind = KindId(data.draw(st.integers(0, len(self.engine.plan.kinds) - 1)))
        rows = self.engine.books.committable(handle, kind)
        if rows:
            self.engine.commit(handle, kind, *rows[data.draw(st.integers(0, len(rows) - 1))])

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        handle, group = self.any_request(data), self.any_group(data)
        places = self.engine.books.requests[handle].held[group]
        if places:
            self.engine.drop(handle, group, data.draw(st.integers(0, len(places) - 1)))

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        self.engine.free(self.any_request(data))

    @rule(data=st.data())
    def lease(self, data: st.DataObject) -> None:
        wanted = [
            data.draw(st.integers(0, 3)) if spec.kind is GroupKind.RECURRENT_STATE else 0
            for spec in self.engine.plan.groups
        ]
        before = snapshot(self.engine.pool)
        if isinstance(self.engine.lease(wanted), Refusal):
            assert snapshot(self.engine.pool) == before

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        group = self.any_group(data)
        stock = self.engine.books.leased[group]
        self.engine.give_back(group, stock[: data.draw(st.integers(0, len(stock)))])

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def commit_leased(self, data: st.DataObject) -> None:
        handle = self.any_request(data)
        for kind, names in self.engine.possible_checkpoints(handle):
            self.engine.commit_leased(handle, kind, data.draw(st.sampled_from(names)))

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def grant_ahead(self, data: st.DataObject) -> None:
        handles = [self.any_request(data), self.any_request(data)]
        self.engine.grant_ahead(handles, [data.draw(st.integers(0, 3)) for _ in handles])

    @rule()
    def begin_step(self) -> None:
        self.engine.begin_step()

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        group = self.any_group(data)
        size_class = self.engine.plan.class_of_group[group]
        num_blocks = self.engine.plan.classes[size_class].num_blocks
        blocks = data.draw(st.lists(st.integers(1, num_blocks - 1), max_size=3))
        self.engine.forget(group, [BlockId(block) for block in blocks])

    @rule(text=PROMPTS, name=st.sampled_from("pqr"), ttl_s=st.sampled_from([1, 5, 20]))
    def pin(self, text: str, name: str, ttl_s: float) -> None:
        before = snapshot(self.engine.pool)
        if isinstance(self.engine.pin(name, text, ttl_s), PinRefusal):
            assert snapshot(self.engine.pool) == before

    @rule(name=st.sampled_from("pqr"))
    def unpin(self, name: str) -> None:
        self.engine.unpin(name)

    @rule(seconds=st.sampled_from([0, 1, 4]))
    def wait(self, seconds: float) -> None:
        self.engine.wait(seconds)

    @rule()
    def reset(self) -> None:
        self.engine.reset()

    @precondition(lambda self: self.engine.books.requests)
    @rule(data=st.data())
    def misuse(self, data: st.DataObject) -> None:
        """A block that is not a request's own sole one is neither committed nor dropped by it."""
        handle, group = self.any_request(data), self.any_group(data)
        size_class = self.engine.plan.class_of_group[group]
        block = BlockId(data.draw(st.integers(0, self.engine.plan.classes[size_class].num_blocks)))
        held = [place.block for place in self.engine.books.requests[handle].held[group]]
        before = snapshot(self.engine.pool)
        if block not in held:
            with pytest.raises(UsageError) as caught:
                self.engine.pool.drop(handle, group, block)
            assert caught.value.reason is Reason.NOT_HELD
        with pytest.raises(UsageError):
            self.engine.pool.take(handle, group, 1000)
        assert snapshot(self.engine.pool) == before

    @invariant()
    def all_laws_hold(self) -> None:
        self.engine.check()
        PoolMachine.num_operations += 1

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            for handle in list(self.engine.books.requests):
                self.engine.free(handle)
            for group, blocks in enumerate(self.engine.books.leased):
                self.engine.give_back(GroupId(group), list(blocks))
            self.engine.wait(100)
            self.engine.check()
            self.engine.check_empty()

    def any_request(self, data: st.DataObject) -> Handle:
        return data.draw(st.sampled_from(sorted(self.engine.books.requests)), label="request")

    def any_group(self, data: st.DataObject) -> GroupId:
        return GroupId(data.draw(st.integers(0, len(self.engine.plan.groups) - 1), label="group"))


class MovingPoolMachine(PoolMachine):
    """The same with a pool that moves blocks."""

    engine_type = RelocatingEngine
