"""An engine whose pool may move blocks, and that moves what it knows about them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest, Answer, Grant, Refusal, moves_of
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import Row
from kvquarry_core.relocation import EvacuateCheapest, Move, Relocation
from tests.core import expectations, reference
from tests.core.books import FakeRequest, Place
from tests.core.fake_engine import PIN_CAP
from tests.core.memory import Key
from tests.core.retaining_engine import RetainingEngine

WITHOUT_BOUNDS = EvacuateCheapest(most_bytes=1 << 40, most_kept_bytes=1 << 40)
_Answer = TypeVar("_Answer", bound=Answer)


class RelocatingEngine(RetainingEngine):
    """What does not fit is tried even so: either nothing happens, or blocks move and it fits.

    Where something fits blocks may move, too, in place of content that would be evicted.
    """

    def __init__(self, plan: Plan, relocation: Relocation = WITHOUT_BOUNDS) -> None:
        super().__init__(plan)
        self.pool = Pool(plan, relocation=relocation, observer=self, pin_cap=PIN_CAP)
        self.num_moves = self.num_kept = 0
        self._handed_out: set[Key] = set()
        #: What was forgotten in an operation that may move blocks, until their new names are known.
        self._heard: list[tuple[tuple[KindId, BlockHash], Row]] | None = None

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """In here the pool may move blocks between one eviction and the next."""
        self.lost.clear()
        self._heard = []
        yield
        assert not self._heard, "something was evicted and nothing granted"
        self._heard = None

    def _strike_out(self, key: tuple[KindId, BlockHash], row: Row) -> None:
        """At once, unless the row may have been moved by then, or not yet."""
        if self._heard is None:
            super()._strike_out(key, row)
        else:
            self._heard.append((key, row))

    def ask(self, ask: Callable[[], _Answer]) -> _Answer:
        """See :meth:`FakeEngine.ask`: blocks that moved have other names now."""
        with self._moving():
            answer = ask()
            self._apply(moves_of(answer))
        return answer

    def check_evictions(self, grant: Grant, cached: set[Key], used: list[set[BlockId]]) -> None:
        """See :meth:`FakeEngine.check_evictions`; nothing moves either while memory suffices."""
        if not grant.moves:
            super().check_evictions(grant, cached, used)
            return
        for size_class, block in cached:
            used[size_class].add(block)
        counts = reference.by_class(self.plan, [len(blocks) for blocks in grant.blocks])
        assert not reference.fits(self.plan, used, counts), "moved while free memory sufficed"
        for entry in self.lost:
            assert cached.intersection(entry.keys), "evicted what was in use"

    def admit(self, request: AdmitRequest, text: str) -> Admission | Refusal:
        """See :meth:`FakeEngine.admit`; an admission that moves blocks is checked by its hit."""
        if expectations.on_the_longest_hit(self.books, request).causes != expectations.SHORT:
            return super().admit(request, text)
        breaking = self.for_admission(request)
        with self._moving():
            answer = self.pool.admit(request)
            if not moves_of(answer):
                self.drop_pins(breaking)
                expected = expectations.of_admission(self.books, request)
                expectations.check_answer(self.books, expected, request, answer)
            if isinstance(answer, Admission):
                self._apply(answer.grant.moves)
        if isinstance(answer, Admission):
            self._note_admission(request, text, answer)
        return answer

    def grow(self, handle: Handle, wanted: Sequence[int]) -> Grant | Refusal:
        """See :meth:`FakeEngine.grow`."""
        if expectations.fits(self.books, wanted):
            return super().grow(handle, wanted)
        breaking = self.for_growth(wanted)
        with self._moving():
            answer = self.pool.grow(handle, wanted)
            self._make_way(answer, breaking)
        if isinstance(answer, Grant):
            self.note_grant(self.books.requests[handle], answer)
        return answer

    def lease(self, num_blocks: Sequence[int]) -> Grant | Refusal:
        """See :meth:`LeasingEngine.lease`."""
        if expectations.fits(self.books, num_blocks):
            return super().lease(num_blocks)
        breaking = self.for_growth(num_blocks)
        with self._moving():
            answer = self.pool.lease_blocks(num_blocks)
            self._make_way(answer, breaking)
        if isinstance(answer, Grant):
            self.note_lease(answer)
        return answer

    def note_lease(self, grant: Grant) -> None:
        """Leased blocks stay where they are until the next step."""
        super().note_lease(grant)
        self._hand_out(grant)

    def note_grant(self, request: FakeRequest, grant: Grant) -> None:
        """And so do granted ones."""
        super().note_grant(request, grant)
        self._hand_out(grant)

    def _note_admission(self, request: AdmitRequest, text: str, answer: Admission) -> None:
        super()._note_admission(request, text, answer)
        for group, blocks in enumerate(answer.hit_blocks):
            self._handed_out |= {self.books.key(GroupId(group), block) for block in blocks}

    def begin_step(self) -> None:
        """What was handed out may move from now on."""
        super().begin_step()
        self._handed_out.clear()

    def reset(self) -> bool:
        """A cache that is reset begins a step, too."""
        is_done = super().reset()
        if is_done:
            self._handed_out.clear()
        return is_done

    def _hand_out(self, grant: Grant) -> None:
        for group, blocks in enumerate(grant.blocks):
            self._handed_out |= {self.books.key(GroupId(group), block) for block in blocks}

    def _make_way(self, answer: Grant | Refusal, breaking: Sequence[str]) -> None:
        """Blocks move, or where that is of no use, pins give way."""
        if isinstance(answer, Refusal):
            assert not breaking, "no pin gave way"
            return
        assert answer.moves or breaking, "granted what does not fit"
        if not answer.moves:
            self.drop_pins(breaking)
        self._apply(answer.moves)

    def _apply(self, moves: Sequence[Move]) -> None:
        """Copy the bytes, and rename the blocks wherever they are known."""
        names = {(m.size_class, m.source): (m.size_class, m.target) for m in moves}
        live, cached = {*self.books.references(), *self.books.granted()}, self.cached()
        self._strike_out_heard(names)
        assert not self._handed_out & set(names), "a block moved that was handed out in this step"
        assert not set(names) & set(names.values()), "a block is both source and target"
        assert len(set(names.values())) == len(names), "two blocks went to one place"
        assert set(names) <= live | cached, "a block moved that holds nothing"
        self.num_kept += len(cached & set(names))
        assert not live & set(names.values()), "a block went where another one is"
        self.memory.copy(names)
        self.num_moves += len(names)
        for source, target in names.items():
            if source in self.written:
                self.written[target] = self.written.pop(source)
        priorities = self.books.priorities.items()
        self.books.priorities = {names.get(key, key): priority for key, priority in priorities}
        for request in self.books.requests.values():
            self._rename(request, names)
        for group, stock in enumerate(self.books.leased):
            stock[:] = [names.get(self.books.key(GroupId(group), b), (0, b))[1] for b in stock]
        for (kind, _), rows in self.books.findable.items():
            for entry in rows:
                entry.keys = tuple(names.get(key, key) for key in entry.keys)
                entry.row = tuple(block for _, block in entry.keys)
                assert self.books.keys_of_row(kind, entry.row) == entry.keys

    def _strike_out_heard(self, names: dict[Key, Key]) -> None:
        """Strike out what was forgotten: a row is told by what it was called at that moment.

        A block that another one moved to was free by then, so its old row was struck out before.
        """
        heard, self._heard = self._heard or [], None
        for (kind, block_hash), row in heard:
            keys = self.books.keys_of_row(kind, row)
            # Of two equal rows one may have moved to where the other was, which went first.
            rows = sorted(
                self.books.findable[kind, block_hash], key=lambda entry: entry.keys != keys
            )
            entry = next(
                entry
                for entry in rows
                if all(
                    key in (old, names.get(old)) for key, old in zip(keys, entry.keys, strict=True)
                )
            )
            super()._strike_out((kind, block_hash), entry.row)
        self._heard = []

    def _rename(self, request: FakeRequest, names: dict[Key, Key]) -> None:
        request.dirty = {names.get(key, key) for key in request.dirty}
        for group in map(GroupId, range(len(self.plan.groups))):
            request.granted[group] = [
                names.get(self.books.key(group, b), (0, b))[1] for b in request.granted[group]
            ]
            request.held[group] = [
                Place(names.get(self.books.key(group, p.block), (0, p.block))[1], p.position)
                for p in request.held[group]
            ]
