"""Ways to break the core, each of them a fault that this kind of code has had or could have."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from kvquarry_core.allocator import Allocator
from kvquarry_core.block_store import BlockStore
from kvquarry_core.concession import Concession
from kvquarry_core.contents import Contents
from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.eviction import CacheView, Lru
from kvquarry_core.gate import Gate
from kvquarry_core.group_rules import (
    NO_HIT,
    FullAttention,
    Hashes,
    KindHit,
    RecurrentState,
    SlidingWindow,
)
from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId, SlabId
from kvquarry_core.lease import Lease
from kvquarry_core.messages import Admission, AdmitRequest, FullRows, Refusal
from kvquarry_core.pins import Pin, Pins
from kvquarry_core.pool import Pool
from kvquarry_core.prefix_index import PrefixIndex, Rows
from kvquarry_core.priorities import Priorities
from kvquarry_core.resumption import Resumption
from kvquarry_core.slabs import SlabMap
from kvquarry_core.touched import Touched


@dataclass(frozen=True)
class Sabotage:
    """A method and what stands in its place."""

    owner: type
    method: str
    replacement: Callable[..., object]


_touch, _release, _give_back = BlockStore.touch, BlockStore.release, BlockStore.give_back
_forget, _fits = Contents.forget, Gate.fits
_reclaim, _pop_free = SlabMap.reclaim, SlabMap.pop_free
_admit, _commit_rows, _longest_hit = Pool.admit, Pool.commit_rows, Coordinator.longest_hit
_find, _find_leading = PrefixIndex.find, PrefixIndex.find_leading
_hand_over = Lease.hand_over
_first_position = SlidingWindow.first_position


def touch_leaves_the_block_evictable(
    self: BlockStore, size_class: ClassId, blocks: Iterable[BlockId]
) -> None:
    """The reference is counted, but the block stays among the cached ones."""
    for block in blocks:
        self._refs[size_class][block] += 1


def touch_takes_no_reference(*_: object) -> None:
    """What was hit may be evicted while it is read."""


def touch_counts_nothing(self: BlockStore, size_class: ClassId, blocks: Iterable[BlockId]) -> None:
    """A second reference on a block in use is lost."""
    _touch(self, size_class, [b for b in blocks if not self.num_references(size_class, b)])


def release_frees_what_is_shared(
    self: BlockStore, size_class: ClassId, blocks: Iterable[BlockId], priority: int = 0
) -> None:
    """The first owner to go takes the block away from all others."""
    for block in blocks:
        self._refs[size_class][block] = 1
        _release(self, size_class, [block], priority)


def forget_leaves_orphans(
    self: Contents, size_class: ClassId, blocks: Iterable[BlockId]
) -> list[Rows]:
    """Only the first block of a row loses its hash."""
    orphaning = []
    for rows in _forget(self, size_class, blocks):
        width = len(rows.blocks) // len(rows.hashes)
        for place, block in enumerate(rows.blocks):
            if place % width:
                self._hashes[size_class][block] = rows.hashes[place // width]
        orphaning.append(replace(rows, blocks=rows.blocks[::width]))
    return orphaning


def forget_keeps_the_index_entry(
    self: Contents, size_class: ClassId, blocks: Iterable[BlockId]
) -> list[Rows]:
    """The blocks are free, but their content is still found."""
    gone = _forget(self, size_class, blocks)
    for rows in gone:
        self._index.insert(rows.kind, rows.hashes, list(rows.blocks))
    return gone


def fits_promises_too_much(
    self: Gate, demand: Sequence[int], touched: Touched | None = None
) -> bool:
    """One block of each class too many."""
    return _fits(self, [max(0, blocks - 1) for blocks in demand], touched)


def fits_promises_too_little(
    self: Gate, demand: Sequence[int], touched: Touched | None = None
) -> bool:
    """One block of each class is held back."""
    return _fits(self, [blocks + 1 for blocks in demand], touched)


def fits_counts_the_hit_as_evictable(self: Gate, demand: Sequence[int], *_: object) -> bool:
    """What is going to be touched is promised to the same request again."""
    return _fits(self, demand)


def give_back_leaks(*_: object) -> None:
    """Unspent grants are nobody's for ever."""


def give_back_cleans(self: BlockStore, size_class: ClassId, blocks: Sequence[BlockId]) -> None:
    """A block that was never zeroed is said to be clean."""
    self.slabs.clean(size_class, blocks)
    _give_back(self, size_class, blocks)


def nothing_is_dirty(*_: object) -> list[BlockId]:
    """Bytes of other classes are handed out as they are."""
    return []


def reclaim_twice(self: SlabMap, slab: SlabId) -> None:
    """A slab can be carved for two classes at once."""
    _reclaim(self, slab)
    self._unassigned.append(slab)


def pop_free_shifts_ids(self: SlabMap, slab: SlabId, most: int) -> list[BlockId]:
    """The blocks next to those that were taken off the list."""
    return [BlockId(block + 1) for block in _pop_free(self, slab, most)]


def find_the_newest_twin(self: PrefixIndex, kind: KindId, block_hash: BlockHash) -> BlockId | None:
    """Not the row that was there first."""
    equal = [one.row[0] for one in self.commitments(kind) if one.block_hash == block_hash]
    return equal[-1] if equal else None


def find_by_the_first_letter(
    self: PrefixIndex, kind: KindId, block_hash: BlockHash
) -> BlockId | None:
    """A hash cut short: other content is taken for this one."""
    found = _find(self, kind, block_hash)
    alike = [one.row[0] for one in self.commitments(kind) if one.block_hash[:1] == block_hash[:1]]
    return found or next(iter(alike), None)


def find_leading_the_newest_twins(
    self: PrefixIndex, kind: KindId, hashes: Sequence[BlockHash]
) -> list[BlockId]:
    """Not the rows that were there first."""
    found = (find_the_newest_twin(self, kind, block_hash) for block_hash in hashes)
    return [first for first in takewhile(lambda one: one is not None, found) if first is not None]


def find_leading_counts_from_one(
    self: PrefixIndex, kind: KindId, hashes: Sequence[BlockHash]
) -> list[BlockId]:
    """The row of the block after the one that was asked for."""
    return _find_leading(self, kind, hashes[1:])


def attention_skips_holes(
    self: FullAttention, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
) -> KindHit:
    """Blocks after a missing one are used."""
    limit = min(max_tokens // self.block_tokens, len(hashes))
    found = [index.find(kind, hashes[position]) for position in range(limit)]
    there = tuple(one for one in found if one is not None)
    return KindHit(len(there) * self.block_tokens, there)


def states_take_the_first_checkpoint(
    self: RecurrentState, index: PrefixIndex, kind: KindId, hashes: Hashes, max_tokens: int
) -> KindHit:
    """The shortest prefix that has a state instead of the longest."""
    for position in range(min(max_tokens // self.block_tokens, len(hashes))):
        found = index.find(kind, hashes[position])
        if found is not None:
            return KindHit((position + 1) * self.block_tokens, (found,))
    return NO_HIT


def windows_forget_their_first_block(self: SlidingWindow, num_tokens: int) -> int:
    """The block in which the window begins is not looked for."""
    first = _first_position(self, num_tokens)
    return min(first + 1, num_tokens // self.block_tokens)


def drafts_are_looked_up_like_others(self: Hashes, num_blocks: int) -> Sequence[BlockHash]:
    """Under the hash that ends with the block, which with drafts is the name of the one before."""
    units = self._hashes_per_block
    return self._hashes[units - 1 : min(num_blocks, self.num_full) * units : units]


def coordinator_ignores_the_shorter_kind(
    self: Coordinator, index: PrefixIndex, hashes: Sequence[BlockHash], max_tokens: int
) -> Hit:
    """The longest prefix of any kind is returned as that of all."""
    hit = _longest_hit(self, index, hashes, max_tokens)
    return Hit(hit.longest_tokens, hit.longest_tokens, hit.kinds)


def states_are_hit_in_their_step(self: Pool, commits: Sequence[FullRows]) -> None:
    """A state that is only going to be written is handed to a reader."""
    _commit_rows(self, commits)
    self.begin_step()


def lookups_count_at_once(self: Pool, request: AdmitRequest) -> Admission | Refusal:
    """A hit is counted though its request may never run."""
    answer = _admit(self, request)
    if isinstance(answer, Admission):
        self.totals.count_lookup(self.requests[request.handle])
    return answer


def free_head_before_tail(self: Pool, handle: Handle) -> None:
    """The head of a prefix becomes the older one."""
    self.settle(handle)
    record = self.requests.remove(handle)
    for size_class, held in zip(self.plan.class_of_group, record.held, strict=True):
        for block in held:
            self.store.release(size_class, [block])


def evict_the_newest(_: Lru, cache: CacheView, size_class: ClassId, __: int) -> list[BlockId]:
    """What was used last goes first."""
    return list(cache.by_age(size_class))[-1:]


def never_another_class(*_: object) -> None:
    """Slabs never change hands."""


def hand_over_keeps_the_lease(self: Lease, group: GroupId, blocks: Sequence[BlockId]) -> None:
    """A checkpoint stays in the stock that requests write in."""
    _hand_over(self, group, blocks)
    self.blocks[group].update(blocks)


def lease_is_not_given_back(*_: object) -> None:
    """The client returned blocks, and nobody took them."""


def checkpoints_grow_old(*_: object) -> None:
    """A request goes on, and the checkpoint of its next turn does not."""


def pins_reference_nothing(self: Pins, pin: Pin) -> None:
    """What is pinned may be evicted."""
    for size_class, column in zip(self._plan.class_of_group, pin.held, strict=True):
        self._num_pins[size_class].update(column)


def pins_never_lapse(*_: object) -> None:
    """A pin is for ever."""


def pins_know_no_cap(*_: object) -> int:
    """Whatever is pinned is nothing more."""
    return 0


def pins_outlive_their_content(*_: object) -> None:
    """What is pinned is a prefix no longer, and nobody notices."""


def concessions_promise_too_much(*_: object) -> bool:
    """One pin is always enough."""
    return True


def concessions_are_made_in_no_order(self: Pins) -> Iterator[Pin]:
    """The pin that lapses last gives way."""
    return iter(sorted(self._pins.values(), key=lambda pin: -pin.deadline_s))


def priorities_are_passed_over(*_: object) -> None:
    """Everything is wanted equally."""


def priorities_stay_with_the_block(*_: object) -> None:
    """What comes into an evicted block is wanted as what was in it."""


#: Caught by any run of an engine that checks what it gets.
RUN_SABOTAGES = [
    Sabotage(BlockStore, "touch", touch_leaves_the_block_evictable),
    Sabotage(BlockStore, "touch", touch_takes_no_reference),
    Sabotage(BlockStore, "touch", touch_counts_nothing),
    Sabotage(BlockStore, "release", release_frees_what_is_shared),
    Sabotage(Contents, "forget", forget_leaves_orphans),
    Sabotage(Contents, "forget", forget_keeps_the_index_entry),
    Sabotage(Gate, "fits", fits_promises_too_much),
    Sabotage(Gate, "fits", fits_promises_too_little),
    Sabotage(Gate, "fits", fits_counts_the_hit_as_evictable),
    Sabotage(BlockStore, "give_back", give_back_leaks),
    Sabotage(BlockStore, "give_back", give_back_cleans),
    Sabotage(Allocator, "_spare_slab", never_another_class),
    Sabotage(SlabMap, "dirty_among", nothing_is_dirty),
    Sabotage(SlabMap, "reclaim", reclaim_twice),
    Sabotage(SlabMap, "pop_free", pop_free_shifts_ids),
    Sabotage(Lease, "hand_over", hand_over_keeps_the_lease),
    Sabotage(Lease, "give_back", lease_is_not_given_back),
    Sabotage(PrefixIndex, "find", find_the_newest_twin),
    Sabotage(PrefixIndex, "find", find_by_the_first_letter),
    Sabotage(PrefixIndex, "find_leading", find_leading_the_newest_twins),
    Sabotage(PrefixIndex, "find_leading", find_leading_counts_from_one),
    Sabotage(FullAttention, "longest_hit", attention_skips_holes),
    Sabotage(RecurrentState, "longest_hit", states_take_the_first_checkpoint),
    Sabotage(Coordinator, "longest_hit", coordinator_ignores_the_shorter_kind),
    Sabotage(Pins, "_hold", pins_reference_nothing),
    Sabotage(Pins, "lapse", pins_never_lapse),
    Sabotage(Pins, "_more_bytes", pins_know_no_cap),
    Sabotage(Pins, "end_with", pins_outlive_their_content),
    Sabotage(Concession, "fits", concessions_promise_too_much),
    Sabotage(Priorities, "raise_to", priorities_are_passed_over),
    Sabotage(Priorities, "forget", priorities_stay_with_the_block),
    Sabotage(Pool, "commit_rows", states_are_hit_in_their_step),
    Sabotage(Pool, "admit", lookups_count_at_once),
    Sabotage(Resumption, "keep_young", checkpoints_grow_old),
]

#: Caught by such a run on a model with windows and a draft model.
WINDOW_SABOTAGES = [
    Sabotage(SlidingWindow, "first_position", windows_forget_their_first_block),
    Sabotage(Hashes, "leading", drafts_are_looked_up_like_others),
]
