"""An engine that also pins prefixes, and whose requests have priorities."""

from collections.abc import Callable, Sequence

from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.lru import LEVEL_STAMP, OLDEST_STAMP
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    Grant,
    Pinned,
    PinRefusal,
    PinRequest,
    Refusal,
)
from kvquarry_core.prefix_index import Row
from tests.core import expectations, farewell, reference
from tests.core.books import FakePin
from tests.core.leasing_engine import LeasingEngine
from tests.core.memory import Key
from tests.core.small_pools import hashes


class RetainingEngine(LeasingEngine):
    """All operations of a pool, time included."""

    now_s = 0.0

    # Pins.

    def pin(self, pin_id: str, text: str, ttl_s: float) -> Pinned | PinRefusal:
        """Pin the longest prefix of a text; refused iff the books say so."""
        expected = self._expected_pin(text, ttl_s)
        before = self.books.pins.get(pin_id)
        answer = self.pool.pin(PinRequest(pin_id, hashes(text), ttl_s))
        expectations.check_pin(self.books, self.pool, (pin_id, expected), answer)
        if isinstance(answer, PinRefusal):
            return answer
        if before is not None:
            expected.deadline_s = max(expected.deadline_s, before.deadline_s)
        self.books.pins[pin_id] = expected
        return answer

    def _expected_pin(self, text: str, ttl_s: float) -> FakePin:
        names, plan = hashes(text), self.plan
        most_tokens = len(names) * plan.hash_tokens
        num_tokens = reference.longest_hit(plan, self.books.findable, names, most_tokens)
        rows = self.books.hit_rows(names, num_tokens)
        entries = [entry for of_kind in rows.values() for entry in of_kind]
        return FakePin(entries, num_tokens, self.now_s + ttl_s)

    def unpin(self, pin_id: str) -> None:
        """End a pin, if there is one."""
        assert self.pool.unpin(pin_id) == (pin_id in self.books.pins)
        self.books.pins.pop(pin_id, None)

    def wait(self, seconds: float) -> None:
        """Time passes; pins may lapse."""
        self.now_s += seconds
        self.pool.note_time(self.now_s)
        pins = self.books.pins
        self.drop_pins([name for name, pin in pins.items() if pin.deadline_s <= self.now_s])

    def drop_pins(self, names: Sequence[str]) -> None:
        """These have ended."""
        for name in names:
            del self.books.pins[name]

    def pins_to_break(self, is_enough: Callable[[], bool], *, most_others: int) -> list[str]:
        """The fewest pins, the one that lapses first first, without which something fits.

        None where it fits anyhow, or never, or where others run who will free something.
        """
        pins = self.books.pins
        order = sorted(pins, key=lambda name: pins[name].deadline_s)
        if len(self.books.requests) > most_others:
            return []
        for num_pins in range(len(order) + 1):
            self.books.pins = {name: pins[name] for name in order[num_pins:]}
            is_over = is_enough()
            self.books.pins = pins
            if is_over:
                return order[:num_pins]
        return []

    def for_admission(self, request: AdmitRequest) -> list[str]:
        """The pins that give way to an admission."""

        def is_enough() -> bool:
            return expectations.of_admission(self.books, request).causes != expectations.SHORT

        return self.pins_to_break(is_enough, most_others=0)

    def for_growth(self, wanted: Sequence[int]) -> list[str]:
        """The pins that give way to somebody who runs alone, or is about to."""
        return self.pins_to_break(lambda: expectations.fits(self.books, wanted), most_others=1)

    def admit(self, request: AdmitRequest, text: str) -> Admission | Refusal:
        """See :meth:`FakeEngine.admit`."""
        self.drop_pins(self.for_admission(request))
        return super().admit(request, text)

    def grow(self, handle: Handle, wanted: Sequence[int]) -> Grant | Refusal:
        """See :meth:`FakeEngine.grow`."""
        self.drop_pins(self.for_growth(wanted))
        return super().grow(handle, wanted)

    def lease(self, num_blocks: Sequence[int]) -> Grant | Refusal:
        """See :meth:`LeasingEngine.lease`."""
        self.drop_pins(self.for_growth(num_blocks))
        return super().lease(num_blocks)

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """See :meth:`FakeEngine.forget`; a prefix that lacks a block is pinned no longer."""
        keys = {self.books.key(group, block) for block in blocks}
        gone = {key for row in expectations.rows_with(self.books, keys) for key in row.keys}
        super().forget(group, blocks)
        self.drop_pins([name for name, pin in self.books.pins.items() if pin.keys & gone])

    def reset(self) -> bool:
        """See :meth:`FakeEngine.reset`."""
        is_done = super().reset()
        if is_done:
            self.books.pins.clear()
        return is_done

    # Priorities.

    def drop(self, handle: Handle, group: GroupId, index: int) -> None:
        """See :meth:`FakeEngine.drop`."""
        place = self.books.requests[handle].held[group][index]
        self._note_use(handle, {self.books.key(group, place.block)})
        super().drop(handle, group, index)

    def free(self, handle: Handle) -> None:
        """See :meth:`FakeEngine.free`."""
        held = self.books.requests[handle].held
        keys = {
            self.books.key(GroupId(g), p.block) for g, places in enumerate(held) for p in places
        }
        self._note_use(handle, keys - farewell.unreached(self.books, handle))
        super().free(handle)

    def _note_use(self, handle: Handle, keys: set[Key]) -> None:
        priority = self.books.requests[handle].priority
        for key in keys & self.books.hashed() if priority else ():
            self.books.priorities[key] = max(priority, self.books.priorities.get(key, 0))

    def _strike_out(self, key: tuple[KindId, BlockHash], row: Row) -> None:
        super()._strike_out(key, row)
        for one in self.lost[-1].keys:
            self.books.priorities.pop(one, None)

    # The laws.

    def check(self) -> None:
        """And the pool's pins and priorities are those of the books."""
        super().check()
        pins = {pin.pin_id: (pin.num_tokens, pin.deadline_s) for pin in self.pool.pins}
        assert pins == {
            name: (pin.num_tokens, pin.deadline_s) for name, pin in self.books.pins.items()
        }
        noted = {
            (ClassId(index), block): priority
            for index, of_class in enumerate(self.pool.store.contents.priorities.of_class)
            for block, priority in of_class.items()
        }
        assert noted == self.books.priorities
        self._check_order_of_priorities()

    def _check_order_of_priorities(self) -> None:
        """What is more wanted is evicted later, but for what nobody will miss."""
        cache = self.pool.store.cache
        for size_class in map(ClassId, range(len(self.plan.classes))):
            blocks = [
                block
                for block in cache.by_age(size_class)
                if cache.stamp_of(size_class, block) != OLDEST_STAMP
            ]
            order = [self.books.priorities.get((size_class, block), 0) for block in blocks]
            assert order == sorted(order)
            stamps = [cache.stamp_of(size_class, block) for block in blocks]
            assert [stamp // LEVEL_STAMP for stamp in stamps] == order
