"""An engine that also runs requests on leased states, and takes blocks ahead."""

import operator
from collections.abc import Iterator, Sequence

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import AheadRequest, Grant, Refusal
from kvquarry_core.plan import GroupKind
from tests.core import expectations, reference
from tests.core.books import Place
from tests.core.fake_engine import WITHOUT_POSITIONS, FakeEngine

#: Blocks are granted ahead while one in so many of their class could still be had by others.
RESERVE = 16


class LeasingEngine(FakeEngine):
    """All operations of a pool."""

    def lease(self, num_blocks: Sequence[int]) -> Grant | Refusal:
        """Enlarge the stock of states and begin to write in them."""
        self.lost.clear()
        expected = expectations.fits(self.books, num_blocks)
        cached, used = self.cached(), self.books.used()
        answer = self.ask(lambda: self.pool.lease_blocks(num_blocks))
        expectations.check_growth(expected, num_blocks, answer)
        if isinstance(answer, Refusal):
            assert not self.lost, "a refused lease evicted something"
            return answer
        self.note_lease(answer)
        self.check_evictions(answer, cached, used)
        return answer

    def note_lease(self, grant: Grant) -> None:
        """Blocks were leased, and something is written in each at once."""
        for group, blocks in enumerate(grant.blocks):
            self.books.leased[group] += blocks
        self.check_owners()
        for group, (blocks, dirty) in enumerate(zip(grant.blocks, grant.dirty, strict=True)):
            keys = {self.books.key(GroupId(group), block) for block in dirty}
            for block in blocks:
                self.write_draft(self.books.key(GroupId(group), block), keys)

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """Return some of the stock."""
        self.pool.give_back(group, blocks)
        for block in blocks:
            self.books.leased[group].remove(block)

    def possible_checkpoints(self, handle: Handle) -> Iterator[tuple[KindId, Sequence[BlockHash]]]:
        """The kinds of state of which the stock holds a row, and the names that it could get."""
        hashes = self.books.requests[handle].hashes
        for kind in map(KindId, range(len(self.plan.kinds))):
            spec = self.plan.spec_of_kind(kind)
            if spec.kind is GroupKind.RECURRENT_STATE:
                units = spec.block_tokens // self.plan.hash_tokens
                names = hashes[units - 1 :: units]
                if names and all(self.books.leased[group] for group in self.plan.kinds[kind]):
                    yield kind, names

    def commit_leased(self, handle: Handle, kind: KindId, block_hash: BlockHash) -> None:
        """Make a checkpoint of the oldest leased state of every group; the request holds it."""
        members = self.plan.kinds[kind]
        row = tuple(self.books.leased[group][0] for group in members)
        self.pool.commit(handle, kind, block_hash, row)
        for group, block in zip(members, row, strict=True):
            self.books.leased[group].remove(block)
            self.books.requests[handle].held[group].append(Place(block, None))
        self.note_commit(handle, kind, block_hash, row)

    def grant_ahead(self, handles: Sequence[Handle], num_blocks: Sequence[int]) -> list[bool]:
        """Ask for blocks ahead; each request gets all of its own or nothing. Who got some?"""
        self.lost.clear()
        before = self.books.used(self.cached())
        ask = AheadRequest(handles, num_blocks)
        answer = self.ask(lambda: self.pool.grant_ahead(ask))
        granted = []
        for handle, wanted, grant in zip(handles, num_blocks, answer.grants, strict=True):
            counts = [len(blocks) for blocks in grant.blocks]
            assert counts in (self._in_attention(wanted), self._in_attention(0)), counts
            granted.append(any(counts))
            self.note_grant(self.books.requests[handle], grant)
        self.check_luxury(num_blocks, granted, before)
        return granted

    def check_luxury(
        self, num_blocks: Sequence[int], granted: Sequence[bool], before: list[set[BlockId]]
    ) -> None:
        """Blocks are granted ahead iff enough is left for others."""
        if any(granted) and len(self.plan.classes) == 1:
            # With several classes it depends on where the blocks were put.
            used = self.books.used(self.cached())
            assert self._leaves_reserve(used, 0), "luxury touched the reserve"
        if self.lost:
            assert len(self.plan.classes) > 1, "luxury evicted something"
            # Of several grants the last may have come out of memory that the first set free.
            is_modest = all(map(operator.le, self._num_idle(), self._most_idle()))
            assert is_modest or sum(granted) > 1, "luxury knew no end"
        if not any(granted) and any(num_blocks) and any(self._in_attention(1)):
            least = min(wanted for wanted in num_blocks if wanted)
            assert not self._leaves_reserve(before, least), "memory was plenty"

    def _num_idle(self) -> list[int]:
        """Blocks by class that were granted in groups of attention and are used by nobody."""
        of_group = [
            sum(len(request.granted[group]) for request in self.books.requests.values()) * mine
            for group, mine in enumerate(self._in_attention(1))
        ]
        return reference.by_class(self.plan, of_group)

    def _most_idle(self) -> list[int]:
        """Where something was evicted for them."""
        return [geometry.num_usable_blocks // RESERVE for geometry in self.plan.classes]

    def _in_attention(self, num_blocks: int) -> list[int]:
        """So many blocks in every group that grows with every token."""
        is_attention = [spec.kind not in WITHOUT_POSITIONS for spec in self.plan.groups]
        return [num_blocks if mine else 0 for mine in is_attention]

    def _leaves_reserve(self, used: list[set[BlockId]], num_blocks: int) -> bool:
        """Whether so many blocks in every group of attention leave enough free for others.

        What running requests were promised is not free.
        """
        wanted = reference.by_class(self.plan, self._in_attention(num_blocks))
        concerned = reference.by_class(self.plan, self._in_attention(1))
        demand = [
            blocks + owed + geometry.num_usable_blocks // RESERVE * (mine + owed > 0)
            for blocks, owed, mine, geometry in zip(
                wanted, self.pool.requests.owed, concerned, self.plan.classes, strict=True
            )
        ]
        return reference.fits(self.plan, used, demand)
