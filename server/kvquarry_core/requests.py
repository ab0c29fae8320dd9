"""What one request holds in the pool."""

from dataclasses import dataclass, field

from kvquarry_core.ids import BlockId, SlabId


@dataclass(slots=True)
class RequestRecord:
    """The blocks a request references and those granted to it.

    Attributes:
        held: Per group, in the order of their positions; each is one reference.
        granted: Per group, the next one to spend last.
        owed: Per size class, blocks promised at admission and not granted yet; below 0 for a
            request that was granted more.
        last_slab: Per size class, where the request took its last block from.
        query_tokens: Tokens looked up at admission, until they are counted.
        hit_tokens: Tokens found at admission, until they are counted.
    """

    held: list[list[BlockId]]
    granted: list[list[BlockId]]
    owed: list[int]
    last_slab: dict[int, SlabId] = field(default_factory=dict)
    query_tokens: int = 0
    hit_tokens: int = 0

    @classmethod
    def empty(cls, num_groups: int, num_classes: int) -> "RequestRecord":
        """A request that holds nothing."""
        held: list[list[BlockId]] = [[] for _ in range(num_groups)]
        granted: list[list[BlockId]] = [[] for _ in range(num_groups)]
        return cls(held, granted, [0] * num_classes)
