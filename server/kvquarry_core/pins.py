"""Pins: cached prefixes that are not evicted until their time is over.

A pin references what an admission that hits its prefix would touch: attention from the first block
on, what is within reach of a window, and the one checkpoint that the prefix ends at. So it is a
holder like a request, and whatever holds of blocks in use holds of pinned ones. It reads and writes
nothing.

::

    pin        references a prefix, unless all pins together would hold more than their cap
    again      the same name: holds what is found now, and ends no earlier than before
    lapse      its time is over
    unpin      somebody ends it
    give way   a request could otherwise never run: the pin that lapses first goes first

What a pin lets go of stays cached like what a request leaves behind.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvquarry_core.block_store import BlockStore
from kvquarry_core.concession import Concession
from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.ids import BlockId, ClassId, KindId
from kvquarry_core.messages import Pinned, PinRefusal, PinRefusalCause, PinRequest
from kvquarry_core.relocation import Move

#: The share of a pool that pins may hold where nobody says otherwise.
DEFAULT_PIN_CAP = 0.25
#: Pins of one pool; each is looked at when somebody asks for a list.
MOST_PINS = 1024


@dataclass(slots=True)
class Pin:
    """A prefix that somebody wants to stay.

    Attributes:
        pin_id: Its name.
        num_tokens: The prefix's length.
        held: Per group, in the order of their positions; each is one reference.
        deadline_s: When its time is over, by the clock the pool is told.
    """

    pin_id: str
    num_tokens: int
    held: list[list[BlockId]]
    deadline_s: float


class Pins:
    """All pins of one pool."""

    def __init__(self, store: BlockStore, coordinator: Coordinator, *, cap: float) -> None:
        """``cap`` is the share of the pool that pins may hold, 0 for no pins at all."""
        self.cap_bytes = int(cap * store.plan.pool_bytes)
        #: What all pins hold; a block that several of them hold counts once.
        self.pinned_bytes = 0
        #: Pins that gave way before their time.
        self.num_broken = 0
        self._plan = store.plan
        self._store = store
        self._coordinator = coordinator
        self._pins: dict[str, Pin] = {}
        # How many pins hold a block, by class.
        self._num_pins: list[Counter[BlockId]] = [Counter() for _ in store.plan.classes]
        self._now_s = 0.0
        # No pin lapses before this.
        self._first_deadline_s = math.inf

    def __len__(self) -> int:
        return len(self._pins)

    def __iter__(self) -> Iterator[Pin]:
        """The pin that lapses first comes first."""
        return iter(sorted(self._pins.values(), key=lambda pin: pin.deadline_s))

    def size_bytes(self, pin: Pin) -> int:
        """What one pin holds, whoever else holds it, too."""
        return sum(
            len(blocks) * self._plan.block_bytes(size_class)
            for size_class, blocks in zip(self._plan.class_of_group, pin.held, strict=True)
        )

    def remaining_s(self, pin: Pin) -> float:
        """How much of a pin's time is left."""
        return pin.deadline_s - self._now_s

    # Beginning and end.

    def pin(self, request: PinRequest, owed: Sequence[int]) -> Pinned | PinRefusal:
        """Pin a prefix or extend a pin, or change nothing.

        Args:
            request: What to pin.
            owed: Blocks that running requests were promised, by class: these must still fit.
        """
        most_tokens = len(request.hashes) * self._plan.hash_tokens
        hit = self._coordinator.longest_hit(self._store.index, request.hashes, most_tokens)
        before = self._pins.get(request.pin_id)
        pin = Pin(
            request.pin_id, hit.num_tokens, self._columns_of(hit), self._now_s + request.ttl_s
        )
        more_bytes = self._more_bytes(pin, before)
        if not hit.num_tokens:
            return self._refusal(PinRefusalCause.NOTHING_CACHED, more_bytes)
        if more_bytes > 0 and self.pinned_bytes + more_bytes > self.cap_bytes:
            return self._refusal(PinRefusalCause.OVER_CAP, more_bytes)
        if self._takes_away(owed, self._by_class(pin.held)):
            return self._refusal(PinRefusalCause.PROMISED, more_bytes)
        if before is None and len(self) >= MOST_PINS:
            return self._refusal(PinRefusalCause.TOO_MANY, more_bytes)
        self._hold(pin)
        if before is not None:
            pin.deadline_s = max(pin.deadline_s, before.deadline_s)
            self._let_go(before)
        self._pins[pin.pin_id] = pin
        self._first_deadline_s = min(self._first_deadline_s, pin.deadline_s)
        return Pinned(pin.num_tokens, self.pinned_bytes, self.cap_bytes)

    def unpin(self, pin_id: str) -> bool:
        """End a pin; False where there is none of this name."""
        pin = self._pins.pop(pin_id, None)
        if pin is not None:
            self._let_go(pin)
        return pin is not None

    def lapse(self, now_s: float) -> None:
        """It is this late: pins whose time is over end."""
        self._now_s = now_s
        if now_s >= self._first_deadline_s:
            self._end(pin for pin in self._pins.values() if pin.deadline_s <= now_s)
            deadlines = (pin.deadline_s for pin in self._pins.values())
            self._first_deadline_s = min(deadlines, default=math.inf)

    def end_with(self, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
        """Some blocks lose their content: what pins hold is no prefix without them."""
        gone = self._num_pins[size_class].keys() & set(blocks)
        if gone:
            groups = self._plan.groups_of_class(size_class)
            self._end(
                pin
                for pin in self._pins.values()
                if any(not gone.isdisjoint(pin.held[group]) for group in groups)
            )

    def end_all(self) -> None:
        """Let everything go."""
        self._end(self._pins.values())

    # What others ask for.

    def concessions(self) -> Iterator[Concession]:
        """What a pool could hand out without its first pin, without its first two, and so on."""
        concession = Concession(self._store, self._give_way)
        for pin in self:
            concession.add(pin.pin_id, pin.held)
            yield concession

    def columns(self) -> Iterator[Sequence[list[BlockId]]]:
        """What each pin holds, by group."""
        return (pin.held for pin in self._pins.values())

    def note_moves(self, moves: Iterable[Move]) -> None:
        """Blocks have other ids, and were renamed in :meth:`columns`."""
        for move in moves:
            counts = self._num_pins[move.size_class]
            if move.source in counts:
                counts[move.target] = counts.pop(move.source)

    # Holding.

    def _columns_of(self, hit: Hit) -> list[list[BlockId]]:
        """The blocks of a hit, by group."""
        held: list[list[BlockId]] = [[] for _ in self._plan.groups]
        for kind, kind_hit in zip(map(KindId, range(len(hit.kinds))), hit.kinds, strict=True):
            columns = self._store.index.columns(kind, kind_hit.rows)
            for group, column in zip(self._plan.kinds[kind], columns, strict=False):
                held[group] += column
        return held

    def _takes_away(self, owed: Sequence[int], blocks: Sequence[set[BlockId]]) -> bool:
        """Whether something fits that would not if these blocks were in use."""
        return (
            self._store.room(blocks).num_spare_slabs(owed)
            < 0
            <= (self._store.room().num_spare_slabs(owed))
        )

    def _more_bytes(self, pin: Pin, before: Pin | None) -> int:
        """Bytes that pins hold once there is this one, less those they hold now."""
        new, old = self._by_class(pin.held), self._by_class(before.held if before else ())
        more_bytes = 0
        for index, counts in enumerate(self._num_pins):
            coming = sum(block not in counts for block in new[index])
            going = sum(counts[block] == 1 for block in old[index] - new[index])
            more_bytes += (coming - going) * self._plan.block_bytes(ClassId(index))
        return more_bytes

    def _by_class(self, held: Sequence[Sequence[BlockId]]) -> list[set[BlockId]]:
        """A pin holds a block once."""
        blocks: list[set[BlockId]] = [set() for _ in self._plan.classes]
        for size_class, column in zip(self._plan.class_of_group, held, strict=False):
            blocks[size_class].update(column)
        return blocks

    def _hold(self, pin: Pin) -> None:
        for size_class, column in zip(self._plan.class_of_group, pin.held, strict=True):
            counts = self._num_pins[size_class]
            num_before = len(counts)
            counts.update(column)
            self.pinned_bytes += (len(counts) - num_before) * self._plan.block_bytes(size_class)
            self._store.touch(size_class, column)

    def _let_go(self, pin: Pin) -> None:
        """The tail goes before the head, so it is evicted first."""
        for size_class, column in zip(self._plan.class_of_group, pin.held, strict=True):
            counts = self._num_pins[size_class]
            for block in column:
                counts[block] -= 1
                if not counts[block]:
                    del counts[block]
                    self.pinned_bytes -= self._plan.block_bytes(size_class)
            self._store.release(size_class, column[::-1])

    def _end(self, pins: Iterable[Pin]) -> None:
        for pin in list(pins):
            self._let_go(self._pins.pop(pin.pin_id))

    def _give_way(self, pin_ids: Sequence[str]) -> None:
        self.num_broken += len(pin_ids)
        self._end([self._pins[pin_id] for pin_id in pin_ids])

    def _refusal(self, cause: PinRefusalCause, more_bytes: int) -> PinRefusal:
        return PinRefusal(cause, max(more_bytes, 0), self.pinned_bytes, self.cap_bytes)
