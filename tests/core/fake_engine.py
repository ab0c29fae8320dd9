"""An engine that writes recognisable values and checks what it finds.

It drives a pool with every operation and keeps its own naive books (:mod:`tests.core.books`) and
its own memory (:mod:`tests.core.memory`). Every answer of the pool is compared with what the books
say, and every block that is hit is read: it must hold what its hash names.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import Admission, AdmitRequest, Answer, Grant, Refusal
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import Row, Rows
from tests.core import expectations, farewell, reference
from tests.core.books import Books, FakeRequest, FindableRow, Place, classes_of, content
from tests.core.memory import Key, Memory, Tag

#: Large enough that pins stand in somebody's way now and then.
PIN_CAP = 0.6
_Answer = TypeVar("_Answer", bound=Answer)
WITHOUT_POSITIONS = (GroupKind.RECURRENT_STATE, GroupKind.CROSS_ATTENTION, GroupKind.SCRATCH)


class FakeEngine:
    """One engine on one pool."""

    def __init__(self, plan: Plan, view: Plan | None = None) -> None:
        """``view`` is the geometry by which the workers map ids onto bytes."""
        self.plan = plan
        self.pool = Pool(plan, observer=self, pin_cap=PIN_CAP)
        self.books = Books(plan)
        self.memory = Memory(view or plan)
        #: What the engine wrote into each block that it references.
        self.written: dict[Key, Tag] = {}
        #: Rows the pool forgot during the running operation.
        self.lost: list[FindableRow] = []
        self._serial = 0

    # A request's life.

    def admit(self, request: AdmitRequest, text: str) -> Admission | Refusal:
        """Admit; the answer is the one the books expect, and what was hit is what it should be."""
        self.lost.clear()
        expected = expectations.of_admission(self.books, request)
        cached, used = self.cached(), self.books.used()
        answer = self.ask(lambda: self.pool.admit(request))
        expectations.check_answer(self.books, expected, request, answer)
        if isinstance(answer, Refusal):
            assert not self.lost, "a refused request evicted something"
            return answer
        self._note_admission(request, text, answer)
        self.check_evictions(answer.grant, cached, used)
        return answer

    def _note_admission(self, request: AdmitRequest, text: str, answer: Admission) -> None:
        held: list[list[Place]] = []
        for group, blocks in enumerate(answer.hit_blocks):
            spec = self.plan.groups[group]
            positions = reference.positions_read(spec, answer.hit_tokens)
            is_state = spec.kind is GroupKind.RECURRENT_STATE
            held.append(
                [Place(b, None if is_state else i) for b, i in zip(blocks, positions, strict=True)]
            )
        noted = FakeRequest(
            text=text,
            num_tokens=request.num_tokens,
            hit_tokens=answer.hit_tokens,
            is_counted=False,
            held=held,
            granted=[[] for _ in self.plan.groups],
            next_position=[answer.hit_tokens // spec.block_tokens for spec in self.plan.groups],
            priority=request.priority,
        )
        self.books.requests[request.handle] = noted
        if answer.hit_tokens:
            name = request.hashes[answer.hit_tokens // self.plan.hash_tokens - 1]
            noted.resumable = dict.fromkeys(farewell.state_kinds(self.plan), name)
        self._check_hit_content(request, answer)
        self.note_grant(noted, answer.grant)

    def _check_hit_content(self, request: AdmitRequest, answer: Admission) -> None:
        """The content of every hit block is what its hash names: nobody wrote there since."""
        for index, members in enumerate(self.plan.kinds):
            spec = self.plan.spec_of_kind(KindId(index))
            positions = reference.positions_read(spec, answer.hit_tokens)
            for member, group in enumerate(members):
                for position, block in zip(positions, answer.hit_blocks[group], strict=True):
                    block_hash = reference.name_at(self.plan, spec, request.hashes, position)
                    assert block_hash is not None, f"{position} was hit and has no name"
                    tag = content(KindId(index), member, block_hash)
                    key = self.books.key(group, block)
                    found = self.memory.read(key)
                    assert found == {tag}, f"hit {key} for {tag}, found {found}"
                    self.written[key] = tag

    def grow(self, handle: Handle, wanted: Sequence[int]) -> Grant | Refusal:
        """Grow; granted iff the books say that it fits."""
        self.lost.clear()
        expected = expectations.fits(self.books, wanted)
        cached, used = self.cached(), self.books.used()
        answer = self.ask(lambda: self.pool.grow(handle, wanted))
        expectations.check_growth(expected, wanted, answer)
        if isinstance(answer, Refusal):
            assert not self.lost, "a refused request evicted something"
            return answer
        self.note_grant(self.books.requests[handle], answer)
        self.check_evictions(answer, cached, used)
        return answer

    def ask(self, ask: Callable[[], _Answer]) -> _Answer:
        """Put something to the pool; what it says besides an answer is noted here."""
        return ask()

    def note_grant(self, request: FakeRequest, grant: Grant) -> None:
        """Blocks were granted to a request."""
        for group, (blocks, dirty) in enumerate(zip(grant.blocks, grant.dirty, strict=True)):
            request.granted[group] += blocks
            request.dirty |= {self.books.key(GroupId(group), block) for block in dirty}
        self.check_owners()

    def check_owners(self) -> None:
        """No block is granted twice, and no byte belongs to two live blocks."""
        live = [*self.books.references(), *self.books.granted().elements()]
        assert len(live) == len(set(live)), "a block was granted twice"
        assert not self.memory.overlaps(live), "two live blocks share a byte"

    def cached(self) -> set[Key]:
        """Blocks with a hash that nobody references."""
        return self.books.hashed() - set(self.books.references())

    def check_evictions(self, grant: Grant, cached: set[Key], used: list[set[BlockId]]) -> None:
        """Only cached content goes, and only where free memory does not suffice."""
        expectations.check_evictions(
            self.books, self.lost, grant, (cached, used), self.pool.requests.owed
        )

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """Spend granted blocks: zero the dirty ones, and write a draft into each."""
        request = self.books.requests[handle]
        expected = request.granted[group][:num_blocks]
        taken = self.pool.take(handle, group, num_blocks)
        assert taken == expected, f"spent {taken}, granted were {expected}"
        del request.granted[group][:num_blocks]
        self.books.count(request)
        for block in taken:
            key = self.books.key(group, block)
            self.write_draft(key, request.dirty)
            has_positions = self.plan.groups[group].kind not in WITHOUT_POSITIONS
            position = request.next_position[group] if has_positions else None
            request.next_position[group] += 1
            request.held[group].append(Place(block, position))

    def write_draft(self, key: Key, dirty: set[Key]) -> None:
        """Zero a block where that is asked for, and begin to write in it."""
        if key in dirty:
            dirty.remove(key)
            self.memory.write(key, ("zero",))
        assert self.memory.writers(key) == {key[0]}, f"{key} is dirty and nobody said so"
        self._serial += 1
        self.written[key] = ("draft", self._serial)
        self.memory.write(key, self.written[key])

    def settle(self, handle: Handle) -> None:
        """Give back what was not spent."""
        self.pool.settle(handle)
        request = self.books.requests[handle]
        request.granted = [[] for _ in self.plan.groups]
        request.dirty.clear()

    def commit(
        self, handle: Handle, kind: KindId, block_hash: BlockHash, places: Sequence[Place]
    ) -> None:
        """Write what the hash names into a row and commit it."""
        row = tuple(place.block for place in places)
        self.pool.commit(handle, kind, block_hash, row)
        self.note_commit(handle, kind, block_hash, row)

    def note_commit(self, handle: Handle, kind: KindId, block_hash: BlockHash, row: Row) -> None:
        """Write what the hash names, and note that it can be found."""
        self.books.count(self.books.requests[handle])
        keys = self.books.keys_of_row(kind, row)
        for member, key in enumerate(keys):
            self.written[key] = content(kind, member, block_hash)
            self.memory.write(key, self.written[key])
        is_state = self.plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE
        if is_state:
            self.books.requests[handle].resumable[kind] = block_hash
        entry = FindableRow(row, keys, is_state)
        self.books.findable.setdefault((kind, block_hash), []).append(entry)
        self.books.commits += 1

    def drop(self, handle: Handle, group: GroupId, index: int) -> None:
        """Give up one block."""
        place = self.books.requests[handle].held[group].pop(index)
        self.pool.drop(handle, group, place.block)

    def free(self, handle: Handle) -> None:
        """The request is over; what no hit reaches becomes the oldest, the rest the newest."""
        left, before = self.least_missed(handle), farewell.by_age(self.pool)
        renewed = farewell.resumable(self.books, handle) - self.outgrown()
        self.pool.free(handle)
        del self.books.requests[handle]
        after = farewell.by_age(self.pool)
        farewell.check_order(self.books, (before, after), self.cached() & left, renewed)

    def least_missed(self, handle: Handle) -> set[Key]:
        """Blocks of a request that go first once it is over."""
        return farewell.unreached(self.books, handle)

    def outgrown(self) -> set[Key]:
        """Cached blocks that go first whatever happens."""
        return set()

    def begin_step(self) -> None:
        """The states of the last step may be hit now."""
        self.pool.begin_step()
        for rows in self.books.findable.values():
            for entry in rows:
                entry.is_too_young = False

    # The cache as a whole.

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Make blocks unfindable; exactly their rows go."""
        self.lost.clear()
        keys = {self.books.key(group, block) for block in blocks}
        expected = expectations.rows_with(self.books, keys)
        self.pool.forget(group, blocks)
        assert set(map(id, self.lost)) == set(map(id, expected))

    def reset(self) -> bool:
        """Forget everything; False while a request uses blocks."""
        in_use = bool(self.books.used_by_requests())
        assert self.pool.reset_cache() != in_use
        assert in_use or not self.books.findable
        return not in_use

    def forgotten(self, rows: Rows) -> None:
        """The pool's observer: strike out rows."""
        width = len(rows.blocks) // len(rows.hashes)
        for number, block_hash in enumerate(rows.hashes):
            row = tuple(rows.blocks[number * width : (number + 1) * width])
            self._strike_out((rows.kind, block_hash), row)

    def _strike_out(self, key: tuple[KindId, BlockHash], row: Row) -> None:
        entries = self.books.findable[key]
        [entry] = [entry for entry in entries if entry.row == row]
        entries.remove(entry)
        if not entries:
            del self.books.findable[key]
        self.lost.append(entry)

    # The laws.

    def check(self) -> None:
        """The pool agrees with the books, its own books agree, and all content is intact."""
        check_integrity(self.pool)
        expectations.check_books(self.books, self.pool)
        self.check_content()

    def check_content(self) -> None:
        """Every held block holds what its holder wrote, every findable row what its hash names."""
        for key in self.books.live():
            found = self.memory.read(key)
            assert found == {self.written[key]}, f"{key}: {found}, wrote {self.written[key]}"
        for (kind, block_hash), rows in self.books.findable.items():
            for entry in rows:
                for member, key in enumerate(entry.keys):
                    tag = content(kind, member, block_hash)
                    assert self.memory.read(key) == {tag}, f"findable {key} lost its content"

    def check_empty(self) -> None:
        """After all requests are freed nothing is in use, and every block can be had again."""
        assert not self.books.requests
        for size_class in classes_of(self.plan):
            assert self.pool.store.num_granted[size_class] == 0
            everything = [0] * len(self.plan.classes)
            everything[size_class] = self.plan.classes[size_class].num_usable_blocks
            assert self.pool.gate.fits(everything)
