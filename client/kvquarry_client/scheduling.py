"""What a scheduler tells its shadow, and what it hears."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash, BlockId, KindId

#: How far ahead blocks are asked for where nobody says otherwise: a request runs low about every
#: hundred steps then, and asks for all others, too.
DEFAULT_AHEAD_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """What an engine decides once.

    Attributes:
        max_grant_tokens: The longest chunk of one step.
        lookahead_tokens: Draft slots beyond it.
        must_fit_whole: Whether a request is admitted only if all of it could fit now.
        keep_free_blocks: Blocks of each class an admission must leave free while others run.
        checkpoints: Which of them are kept; None where nothing is ever committed.
        moves_blocks: Whether the engine's workers can move blocks: then every step is marked.
        in_flight_tokens: The most tokens on their way at once, where steps overlap; 0 for those of
            one step.
        ahead_tokens: Where memory is plenty, attention blocks are asked for so many tokens before
            they are needed, and states nobody uses stay in stock. With 0, nothing ever lies idle,
            at the price of more exchanges.
        check_steps: Debugging: every so many steps the pool compares its books with the shadow's;
            0 for never.
    """

    max_grant_tokens: int
    lookahead_tokens: int
    must_fit_whole: bool
    keep_free_blocks: tuple[int, ...]
    checkpoints: Checkpoints | None
    ahead_tokens: int = 0
    check_steps: int = 0
    in_flight_tokens: int = 0
    moves_blocks: bool = False

    @property
    def num_overlapping_steps(self) -> int:
        """Steps that are on their way at once."""
        return max(-(-self.in_flight_tokens // self.max_grant_tokens), 1)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting request, as much of it as a lookup needs.

    Attributes:
        request_id: The engine's name for it.
        hashes: Hashes of its full blocks, at the plan's ``hash_tokens``; empty to look up nothing.
        num_tokens: Its length now.
        encoder_tokens: Tokens of its encoder, for models with cross attention.
        most_tokens: It never gets longer than this; None where nobody knows.
        priority: That of what it leaves behind, see :mod:`kvquarry_core.priorities`.
    """

    request_id: str
    hashes: Sequence[BlockHash]
    num_tokens: int
    encoder_tokens: int = 0
    most_tokens: int | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a waiting request may build on.

    Attributes:
        hit_tokens: Tokens that need not be computed.
        junction_tokens: Where another request's longer prefix parts from it, or 0.
        block_ids: The blocks hit, by group, null blocks included; empty after a refusal.
    """

    hit_tokens: int
    junction_tokens: int
    block_ids: tuple[list[BlockId], ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """How far a request is going to be computed.

    Attributes:
        num_tokens: Tokens of the main model after this step, computed ones included.
        num_slots: The same plus draft slots.
        num_processed: Tokens whose step has been processed: nothing in flight reads before them.
    """

    num_tokens: int
    num_slots: int
    num_processed: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Positions of one kind that a request just made findable, and the names of their content."""

    kind: KindId
    positions: Sequence[int]
    names: Sequence[BlockHash]
