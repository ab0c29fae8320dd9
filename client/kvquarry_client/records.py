"""One request in the shadow: its tables, and how far it may go before anything is asked.

What it was granted and has not spent is in :mod:`kvquarry_client.unspent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_client.renames import Renames
from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_client.stock import StateStock
from kvquarry_client.tables import ANY_NUMBER, Columns, make_table
from kvquarry_client.unspent import Unspent
from kvquarry_client.worth import worth_keeping
from kvquarry_core.books import Holding
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import NULL_BLOCK, BlockId, Handle, KindId
from kvquarry_core.messages import Admission
from kvquarry_core.names import remembered
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.prefix_index import Row
from kvquarry_core.retention import Landmarks


@dataclass(frozen=True, slots=True)
class Spent:
    """Rows of one kind that a request took out of its grant or the stock, column by column.

    Attributes:
        kind: The kind.
        columns: The rows, with one column per member group.
        dirty: The blocks among them that are to be zeroed.
    """

    kind: KindId
    columns: Columns
    dirty: Sequence[BlockId]

    @property
    def num_rows(self) -> int:
        """How many."""
        return len(self.columns[0])


@dataclass(frozen=True, slots=True)
class Dropped:
    """Committed rows of one kind that a request no longer needs."""

    kind: KindId
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _Quiet:
    """How far a request may go before anything moves."""

    most_slots: int
    most_processed: int


class ShadowRequest:
    """A request's side of the pool's :class:`~kvquarry_core.requests.RequestRecord`."""

    def __init__(
        self,
        plan: Plan,
        stock: StateStock,
        handle: Handle,
        admission: Admission,
        waiting: Waiting,
    ) -> None:
        self.handle = handle
        self.hit_tokens = admission.hit_tokens
        places = remembered(plan, admission)
        #: Where those of its hashes stand that the pool's owner remembers.
        self.remembered = places[: max(len(waiting.hashes) - places.start, 0)]
        self.junction_tokens = junction(admission.hit_tokens, admission.longest_tokens)
        #: Slots of its last step; before the first one, of the prompt.
        self.num_slots = waiting.num_tokens
        #: Whether it was ever scheduled: else it has nothing but its hit.
        self.has_started = False
        self.encoder_tokens = waiting.encoder_tokens
        #: Where its text is known to be gone on from, as told last; and as checkpoints go by it.
        self.landmarks: Landmarks | None = None
        self.aligned_landmarks = Landmarks()
        self.unspent = Unspent(plan)
        self.unspent.add(admission.grant)
        self._plan = plan
        self._stock = stock
        self._most_tokens = waiting.most_tokens
        self._kind_ids = [KindId(index) for index in range(len(plan.kinds))]
        self.tables = [
            make_table(
                plan.spec_of_kind(kind),
                [admission.hit_blocks[group] for group in plan.kinds[kind]],
                admission.hit_tokens,
                waiting.encoder_tokens,
            )
            for kind in self._kind_ids
        ]
        # What it has unspent of each kind that grows. Every exchange looks at that of everybody.
        columns = zip(self.tables, self.unspent.columns, strict=True)
        self._to_grow_with = [unspent[0] for table, unspent in columns if table.grows]
        # Per kind, tokens up to the last committed position.
        self._cached_tokens = [admission.hit_tokens] * len(self.tables)
        self._lengths_before = [len(table) for table in self.tables]
        self._quiet: _Quiet | None = None

    @property
    def cached_tokens(self) -> int:
        """Tokens that are findable now, in every kind that is ever found."""
        found = (
            tokens
            for kind, tokens in zip(self._kind_ids, self._cached_tokens, strict=True)
            if self._plan.spec_of_kind(kind).may_be_hit
        )
        return min(found, default=0)

    def block_ids(self) -> tuple[list[BlockId], ...]:
        """The whole block table of every group; null blocks included."""
        return self._by_group([table.columns for table in self.tables])

    def new_block_ids(self) -> tuple[list[BlockId], ...]:
        """What the last :meth:`spend` appended to every group's table; null blocks included."""
        by_group: list[list[BlockId]] = [[] for _ in self._plan.groups]
        kinds = zip(self._plan.kinds, self.tables, self._lengths_before, strict=True)
        for members, table, start in kinds:
            for group, column in zip(members, table.columns, strict=True):
                by_group[group] = column[start:]
        return tuple(by_group)

    def is_quiet(self, num_slots: int, num_processed: int, checkpoints: Checkpoints | None) -> bool:
        """Whether a step to ``num_slots`` has nothing to grow, to retire or to commit.

        This is what most decode steps ask, so the answer is kept until something moves. Chunks as
        long as a block are taken for not quiet: there is no need to measure.
        """
        if num_slots - self.num_slots >= self._plan.hash_tokens:
            return False
        quiet = self._quiet
        if quiet is None:
            quiet = self._quiet = self._measure_quiet(checkpoints)
        if num_slots > quiet.most_slots or num_processed > quiet.most_processed:
            return False
        self.num_slots = num_slots
        return True

    def _measure_quiet(self, checkpoints: Checkpoints | None) -> "_Quiet":
        most_slots = min(table.most_slots() for table in self.tables)
        if checkpoints is not None:
            align = checkpoints.alignment_tokens
            for kind, table in zip(self._kind_ids, self.tables, strict=True):
                spec = self._plan.spec_of_kind(kind)
                if spec.may_be_hit:
                    settled = table.num_settled * spec.block_tokens
                    to_commit = (settled // align + 1) * align
                    if spec.is_draft:
                        named = settled + spec.block_tokens + self._plan.hash_tokens
                        to_commit = max(to_commit, named)
                    most_slots = min(most_slots, to_commit - 1)
        limits = (table.most_processed() for table in self.tables)
        return _Quiet(
            most_slots, min((one for one in limits if one is not None), default=ANY_NUMBER)
        )

    def holding(self) -> Holding:
        """What the pool must count as this request's."""
        held: list[list[list[BlockId]]] = []
        for table, private in zip(self.tables, self.private_columns(), strict=True):
            others = [{NULL_BLOCK, *blocks} for blocks in private]
            columns = zip(table.columns, others, strict=True)
            held.append([[b for b in column if b not in other] for column, other in columns])
        return Holding(self.handle, self._by_group(held), self._by_group(self.unspent.columns))

    def private_columns(self) -> list[list[Sequence[BlockId]]]:
        """By kind and member group, states of the engine's stock that the request runs on."""
        return [
            [[row[member] for row in table.private_rows()] for member in range(len(table.columns))]
            for table in self.tables
        ]

    # Spending.

    def num_granted(self, kind: KindId) -> int:
        """Rows of a kind that may be spent without asking."""
        stock = self._stock
        return stock.num_rows(kind) if stock.stocks[kind] else self.unspent.num_rows(kind)

    def missing(self, allocation: Allocation) -> list[int]:
        """Rows to ask for, by kind, beyond those granted or in stock."""
        num_tokens, num_slots = allocation.num_tokens, allocation.num_slots
        return [
            max(table.num_new_rows(num_tokens, num_slots) - self.num_granted(kind), 0)
            for kind, table in zip(self._kind_ids, self.tables, strict=True)
        ]

    def has_enough(self, allocation: Allocation) -> bool:
        """Whether nothing has to be asked for."""
        return not any(self.missing(allocation))

    def spend(self, allocation: Allocation) -> list[Spent]:
        """Grow every table out of grant and stock; call when :meth:`missing` is all zeros."""
        num_tokens, num_slots = allocation.num_tokens, allocation.num_slots
        spent = []
        self._quiet = None
        self.has_started = True
        self.num_slots = num_slots
        self._lengths_before = [len(table) for table in self.tables]
        for kind, table in zip(self._kind_ids, self.tables, strict=True):
            num_rows = table.num_new_rows(num_tokens, num_slots)
            columns = self._take_rows(kind, num_rows)
            table.grow(num_tokens, num_slots, columns)
            if num_rows:
                spent.append(Spent(kind, columns, self.unspent.take_dirty(kind, columns)))
        return spent

    def _take_rows(self, kind: KindId, num_rows: int) -> Columns:
        if not num_rows:
            return [()] * len(self._plan.kinds[kind])
        if self._stock.stocks[kind]:
            return list(zip(*self._stock.take(kind, num_rows), strict=True))
        return self.unspent.take(kind, num_rows)

    def runs_low(self, num_rows: int) -> bool:
        """Whether it has no more than half of so many rows of some kind that grows."""
        fewest = min(map(len, self._to_grow_with), default=ANY_NUMBER)
        return 2 * fewest <= num_rows

    def rows_to_ask_ahead(self, num_rows: int) -> int:
        """Rows to ask for so that it has ``num_rows`` to go on with, in every kind that grows.

        None while it has more than half of them, and none beyond its end.
        """
        wanted = 0
        for kind, table in zip(self._kind_ids, self.tables, strict=True):
            if table.grows:
                num_granted = self.unspent.num_rows(kind)
                if 2 * num_granted <= num_rows:
                    most = self._rows_to_its_end(kind) - num_granted
                    wanted = max(wanted, min(num_rows - num_granted, most))
        return wanted

    def num_slots_left(self) -> int:
        """Slots that it goes on with before a kind that grows needs another row."""
        slots = (table.most_slots() for table in self.tables if table.grows)
        return min(slots, default=ANY_NUMBER) - self.num_slots

    def _rows_to_its_end(self, kind: KindId) -> int:
        if self._most_tokens is None:
            return ANY_NUMBER
        return self.tables[kind].num_new_rows(self._most_tokens, self._most_tokens)

    def rename(self, renames: Renames) -> None:
        """Blocks moved: the tables, which vLLM may hold on to, are changed in place."""
        for members, table in zip(self._plan.kinds, self.tables, strict=True):
            for group, column in zip(members, table.columns, strict=True):
                renames.apply(group, column)
        self.unspent.rename(renames)

    # Content.

    def retire(self, num_processed: int) -> list[Dropped]:
        """Rows nobody reads any more, by kind; those of the stock go back to it instead."""
        dropped = []
        self._quiet = None
        for kind, table in zip(self._kind_ids, self.tables, strict=True):
            retired = table.retire(num_processed)
            if retired.leased:
                self._stock.recycle(kind, retired.leased)
            if retired.held:
                dropped.append(Dropped(kind, retired.held))
        return dropped

    def recycle(self) -> None:
        """The request is over: states that were its alone go back to the stock."""
        for kind, table in zip(self._kind_ids, self.tables, strict=True):
            self._stock.recycle(kind, table.private_rows())

    def commitable(self, kind: KindId, num_tokens: int, checkpoints: Checkpoints) -> Sequence[int]:
        """Positions of one kind that became full and deserve a hash; each is named once."""
        table, spec = self.tables[kind], self._plan.spec_of_kind(kind)
        if not spec.may_be_hit:
            return ()
        usable = num_tokens // checkpoints.alignment_tokens * checkpoints.alignment_tokens
        if spec.is_draft:
            # A row has no name before the hash unit after it is full. A window no wider than that
            # gives it up before.
            usable = min(usable, num_tokens - self._plan.hash_tokens)
        first, end = table.num_settled, usable // spec.block_tokens
        if end <= first:
            return ()
        table.num_settled = end
        self._quiet = None
        positions = worth_keeping(spec, range(first, end), checkpoints, self.aligned_landmarks)
        if spec.kind is not GroupKind.FULL_ATTENTION:
            # A window narrower than the alignment gives rows up before they could be hit.
            positions = [position for position in positions if table.row(position) is not None]
        if positions:
            self._cached_tokens[kind] = (positions[-1] + 1) * spec.block_tokens
        return positions

    def _by_group(
        self, columns_of_kinds: Sequence[Sequence[list[BlockId]]]
    ) -> tuple[list[BlockId], ...]:
        by_group: list[list[BlockId]] = [[] for _ in self._plan.groups]
        for members, columns in zip(self._plan.kinds, columns_of_kinds, strict=True):
            for group, column in zip(members, columns, strict=True):
                by_group[group] = column
        return tuple(by_group)


def junction(hit_tokens: int, longest_tokens: int) -> int:
    """Where another request's longer prefix parts from this one's, or 0 if there is none."""
    return longest_tokens if longest_tokens > hit_tokens else 0
