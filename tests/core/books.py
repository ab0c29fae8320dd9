"""What an engine knows about its pool, kept in plain dicts and lists."""

from collections import Counter
from dataclasses import dataclass, field

from kvquarry_core.ids import BlockHash, BlockId, ClassId, GroupId, Handle, KindId
from kvquarry_core.messages import AdmitRequest
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import Row
from tests.core import reference
from tests.core.memory import Key, Tag
from tests.core.small_pools import hashes

#: Kinds whose blocks no hash names.
NEVER_SHARED = (GroupKind.CROSS_ATTENTION, GroupKind.SCRATCH)


@dataclass(slots=True, eq=False)
class FindableRow:
    """Blocks that were committed together."""

    row: Row
    keys: tuple[Key, ...]
    #: A state of the running step is not hit before the next one.
    is_too_young: bool


@dataclass(slots=True)
class FakePin:
    """A prefix that stays until its time is over."""

    rows: list[FindableRow]
    num_tokens: int
    deadline_s: float

    @property
    def keys(self) -> set[Key]:
        """Its blocks."""
        return {key for entry in self.rows for key in entry.keys}


@dataclass(slots=True)
class Place:
    """A block of a request. Attention blocks stand at a position, others do not."""

    block: BlockId
    position: int | None


@dataclass(slots=True)
class FakeRequest:
    """One request: its text, and the blocks it has in every group."""

    text: str
    num_tokens: int
    hit_tokens: int
    is_counted: bool
    held: list[list[Place]]
    granted: list[list[BlockId]]
    next_position: list[int]
    priority: int = 0
    dirty: set[Key] = field(default_factory=set)
    #: The deepest checkpoint, by kind: what the next turn resumes at.
    resumable: dict[KindId, BlockHash] = field(default_factory=dict)

    @property
    def hashes(self) -> list[BlockHash]:
        """One a letter."""
        return hashes(self.text)


class Books:
    """Requests, references and findable rows of one pool, none of it read from the pool."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.requests: dict[Handle, FakeRequest] = {}
        self.findable: dict[tuple[KindId, BlockHash], list[FindableRow]] = {}
        self.pins: dict[str, FakePin] = {}
        #: Of content that has one above 0.
        self.priorities: dict[Key, int] = {}
        #: States that belong to the engine as a whole, by group.
        self.leased: list[list[BlockId]] = [[] for _ in plan.groups]
        self.admissions = self.query_tokens = self.hit_tokens = self.commits = 0

    def key(self, group: GroupId, block: BlockId) -> Key:
        """A block of a group, among all blocks."""
        return self.plan.class_of_group[group], block

    def keys_of_row(self, kind: KindId, row: Row) -> tuple[Key, ...]:
        """The blocks of a row."""
        members = self.plan.kinds[kind]
        return tuple(self.key(group, block) for group, block in zip(members, row, strict=True))

    def references(self) -> Counter[Key]:
        """How often every block is referenced, null blocks left out."""
        return self.used_by_requests() + Counter(
            key for pin in self.pins.values() for key in pin.keys
        )

    def used_by_requests(self) -> Counter[Key]:
        """The same by requests alone."""
        return Counter(
            self.key(GroupId(group), place.block)
            for request in self.requests.values()
            for group, places in enumerate(request.held)
            for place in places
        )

    def granted(self) -> Counter[Key]:
        """How often every block is granted or leased: once, or never."""
        stocks = [self.leased, *(request.granted for request in self.requests.values())]
        return Counter(
            self.key(GroupId(group), block)
            for stock in stocks
            for group, blocks in enumerate(stock)
            for block in blocks
        )

    def live(self) -> set[Key]:
        """The blocks that the engine wrote into and counts on: held and leased ones."""
        leased = {
            self.key(GroupId(group), block)
            for group, blocks in enumerate(self.leased)
            for block in blocks
        }
        return leased | set(self.references())

    def hashed(self) -> set[Key]:
        """The blocks of all findable rows."""
        return {key for rows in self.findable.values() for entry in rows for key in entry.keys}

    def used(self, *more: set[Key]) -> list[set[BlockId]]:
        """Blocks that cannot be handed out, by class: null, held, granted, and ``more``."""
        used = reference.null_blocks(self.plan)
        for keys in ({*self.references(), *self.granted()}, *more):
            for size_class, block in keys:
                used[size_class].add(block)
        return used

    def new_blocks(self, request: AdmitRequest, hit_tokens: int, num_tokens: int) -> list[int]:
        """New blocks by group for one chunk; none for states, where those are leased."""
        wanted = reference.new_blocks(self.plan, hit_tokens, num_tokens, request.encoder_tokens)
        return self._without_leased(request, wanted)

    def whole_sequence(self, request: AdmitRequest, hit_tokens: int) -> list[int]:
        """The most new blocks by group that a request will hold at once."""
        in_flight = request.in_flight_tokens or request.max_grant_tokens
        wanted = reference.most_new_blocks(
            self.plan,
            hit_tokens,
            request.must_fit_tokens,
            in_flight + request.lookahead_tokens,
            request.encoder_tokens,
        )
        return self._without_leased(request, wanted)

    def held_blocks(self, request: AdmitRequest, processed: int, num_tokens: int) -> list[int]:
        """Blocks by group that going on from ``processed`` takes in all."""
        wanted = reference.held_blocks(self.plan, processed, num_tokens, request.encoder_tokens)
        return self._without_leased(request, wanted)

    def _without_leased(self, request: AdmitRequest, wanted: list[int]) -> list[int]:
        if not request.states_are_leased:
            return wanted
        states = GroupKind.RECURRENT_STATE
        return [
            0 if spec.kind is states else blocks
            for blocks, spec in zip(wanted, self.plan.groups, strict=True)
        ]

    def count(self, request: FakeRequest) -> None:
        """A lookup counts once, when its first blocks are spent."""
        if not request.is_counted:
            request.is_counted = True
            self.admissions += 1
            self.query_tokens += request.num_tokens
            self.hit_tokens += request.hit_tokens

    def committable(self, handle: Handle, kind: KindId) -> list[tuple[BlockHash, list[Place]]]:
        """The rows a request could commit now, and the hashes it would commit them under.

        Blocks whose hash was forgotten while several requests share them are not among them.
        """
        request, spec = self.requests[handle], self.plan.spec_of_kind(kind)
        if spec.kind in NEVER_SHARED:
            return []
        at_each = [
            reference.name_at(self.plan, spec, request.hashes, position)
            for position in range(len(request.hashes))
        ]
        names = [name for name in at_each if name is not None]
        open_places = [self._open_places(handle, group) for group in self.plan.kinds[kind]]
        if spec.kind is GroupKind.RECURRENT_STATE:
            rows = list(zip(*open_places, strict=False))
            return [(name, list(row)) for name in names for row in rows]
        found = []
        for position, name in enumerate(names):
            row = [
                place for places in open_places for place in places if place.position == position
            ]
            if len(row) == len(open_places):
                found.append((name, row))
        return found

    def _open_places(self, handle: Handle, group: GroupId) -> list[Place]:
        references, hashed = self.references(), self.hashed()
        return [
            place
            for place in self.requests[handle].held[group]
            if references[self.key(group, place.block)] == 1
            and self.key(group, place.block) not in hashed
        ]

    def hit_rows(self, names: list[BlockHash], hit_tokens: int) -> dict[KindId, list[FindableRow]]:
        """The rows a hit references: those that the token after it reads."""
        rows: dict[KindId, list[FindableRow]] = {}
        for index in range(len(self.plan.kinds)):
            kind, spec = KindId(index), self.plan.spec_of_kind(KindId(index))
            positions = reference.positions_read(spec, hit_tokens)
            found = [reference.name_at(self.plan, spec, names, position) for position in positions]
            rows[kind] = [self.findable[kind, name][0] for name in found if name is not None]
            assert None not in found, f"a hit of {hit_tokens} tokens reads rows without a name"
        return rows


def content(kind: KindId, member: int, block_hash: BlockHash) -> Tag:
    """What the bytes of a committed block are: its hash names all that they depend on."""
    return ("content", kind, member, block_hash)


def classes_of(plan: Plan) -> list[ClassId]:
    """All size classes."""
    return [ClassId(index) for index in range(len(plan.classes))]
