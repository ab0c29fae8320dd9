"""What a pool is asked and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from kvquarry_core.ids import BlockHash, BlockId, Handle, KindId
from kvquarry_core.relocation import Move


@dataclass(frozen=True, slots=True)
class AdmitRequest:
    """A request that waits to be scheduled.

    ::

        0            hit                    hit + max_grant_tokens      num_tokens
        |<-- touched ->|<------ granted ------->|                           |
        |<---------------------- must fit, if must_fit_tokens ------------->|

    Attributes:
        handle: The client's number for it, never used before.
        hashes: Hashes of the request's full blocks; empty to look nothing up.
        num_tokens: Its length now, output tokens of an earlier life included.
        max_hit_tokens: The longest hit that may be used; the last token is always computed.
        max_grant_tokens: How many tokens past the hit blocks are granted for at most.
        lookahead_tokens: Attention slots beyond that, for draft tokens and to decode into.
        must_fit_tokens: Refuse unless blocks for this many tokens could be had now; 0 to not ask.
        keep_free_blocks: Blocks of each class that must stay free after that.
        states_are_leased: The client runs the request on states of its lease: none are granted,
            and none are asked for when sizes are summed.
        in_flight_tokens: The most tokens on their way at once, where several steps overlap: blocks
            that these read do not leave a window. 0 for ``max_grant_tokens``.
        encoder_tokens: Tokens of the encoder, which groups of cross attention hold.
        priority: What it leaves behind is evicted after all that has a lower one, see
            :mod:`kvquarry_core.priorities`.
    """

    handle: Handle
    hashes: Sequence[BlockHash]
    num_tokens: int
    max_hit_tokens: int
    max_grant_tokens: int
    lookahead_tokens: int = 0
    must_fit_tokens: int = 0
    keep_free_blocks: Sequence[int] = ()
    states_are_leased: bool = False
    in_flight_tokens: int = 0
    encoder_tokens: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class GrowRequest:
    """A request needs more blocks than it was granted: all of these or none.

    Attributes:
        handle: The request.
        num_blocks: Blocks wanted, by group.
    """

    handle: Handle
    num_blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """The client's stock of states is to grow: all of these or none.

    Attributes:
        num_blocks: Blocks wanted, by group.
    """

    num_blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class AheadRequest:
    """Requests that will need blocks soon; each gets its own or nothing, as memory allows.

    Attributes:
        handles: The requests.
        num_blocks: Blocks wanted in every group that grows with every token, for each of them.
    """

    handles: Sequence[Handle]
    num_blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class FullRows:
    """Rows of one request and one kind that became full.

    Attributes:
        handle: The request.
        kind: The kind.
        hashes: What names each row: the hash at its end, or as many units beyond as
            :attr:`GroupSpec.num_hashes_beyond` says.
        blocks: The rows one after another, each with one block per group of the kind.
        first: Where the first hash stands among those of the request's text; None where that is
            not known.
        is_remembered: Whether the pool's owner remembers that hash since the request was admitted
            (:mod:`kvquarry_core.names`), and the others, which follow it.
    """

    handle: Handle
    kind: KindId
    hashes: Sequence[BlockHash]
    blocks: list[BlockId]
    first: int | None = None
    is_remembered: bool = False


@dataclass(frozen=True, slots=True)
class PinRequest:
    """The longest cached prefix of some text is to stay for a while, see :mod:`kvquarry_core.pins`.

    Attributes:
        pin_id: The client's name for it. The same name again extends the pin, and what it holds is
            then the prefix found now.
        hashes: Hashes of the text's full blocks.
        ttl_s: For how long, counted from the time the pool was told last.
    """

    pin_id: str
    hashes: Sequence[BlockHash]
    ttl_s: float


#: What has to be answered.
Ask = AdmitRequest | GrowRequest | LeaseRequest | AheadRequest | PinRequest


class RefusalCause(Enum):
    """Why blocks were not handed out; nothing was changed."""

    SHORTAGE = "shortage"
    #: The hit ends in a state that is written in this very step: not before the next one.
    SAME_STEP = "same_step"
    #: More than the whole pool holds.
    NEVER_FITS = "never_fits"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Does not fit, with the numbers.

    Attributes:
        cause: Why.
        hit_tokens: The hit a later try may expect.
        wanted_blocks: Blocks wanted, by size class.
        available_blocks: Blocks that could have been had without taking slabs from another
            class, by size class.
    """

    cause: RefusalCause
    hit_tokens: int = 0
    longest_tokens: int = 0
    wanted_blocks: tuple[int, ...] = ()
    available_blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """Blocks handed out ahead, by group, in the order in which they are to be spent.

    Attributes:
        blocks: Block ids per group.
        dirty: Those whose bytes were last of another class or of nobody, per group: whoever
            reads a block before having written all of it must zero it first.
        moves: Blocks that were moved to make room: whoever knows them by their old ids renames
            them, and the worker copies their bytes before anything else of the step.
    """

    blocks: tuple[list[BlockId], ...]
    dirty: tuple[list[BlockId], ...]
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """A hit, touched, and the blocks granted to go on from it.

    Attributes:
        hit_tokens: Tokens that need not be computed again.
        longest_tokens: The longest prefix any single kind has (see ``coordinator.Hit``).
        hit_blocks: The blocks touched, per group, the last ones of the prefix: all of it for full
            attention, what is within reach for a window, one for states, none for others.
        grant: What may be spent.
    """

    hit_tokens: int
    longest_tokens: int
    hit_blocks: tuple[list[BlockId], ...]
    grant: Grant


@dataclass(frozen=True, slots=True)
class AheadGrant:
    """What was granted ahead, in the order of the handles asked for.

    Attributes:
        grants: One for each handle; without blocks where memory is too short for luxury.
    """

    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pin holds.

    Attributes:
        num_tokens: The length of the prefix it holds.
        pinned_bytes: What all pins of the pool hold now.
        cap_bytes: What they may hold at most.
    """

    num_tokens: int
    pinned_bytes: int
    cap_bytes: int


class PinRefusalCause(Enum):
    """Why nothing was pinned; nothing was changed."""

    #: No prefix of the text is cached.
    NOTHING_CACHED = "nothing_cached"
    #: All pins together would hold more than they may.
    OVER_CAP = "over_cap"
    #: What it would hold was promised to requests that run.
    PROMISED = "promised"
    #: The pool has as many pins as it may have.
    TOO_MANY = "too_many"


@dataclass(frozen=True, slots=True)
class PinRefusal:
    """A pin was refused, with the numbers.

    Attributes:
        cause: Why.
        wanted_bytes: What the pin would hold beyond what pins hold already.
        pinned_bytes: What all pins of the pool hold now.
        cap_bytes: What they may hold at most.
    """

    cause: PinRefusalCause
    wanted_bytes: int
    pinned_bytes: int
    cap_bytes: int


#: Answers, each to an :data:`Ask`.
Answer = Admission | Grant | AheadGrant | Refusal | Pinned | PinRefusal
#: Those that say that nothing was changed.
REFUSALS = (Refusal, PinRefusal)


def moves_of(answer: Answer) -> tuple[Move, ...]:
    """The blocks that were moved to give this answer."""
    match answer:
        case Admission():
            return answer.grant.moves
        case Grant():
            return answer.moves
        case AheadGrant():
            return tuple(chain.from_iterable(grant.moves for grant in answer.grants))
        case _:
            return ()
