"""Who holds what, as a digest: made alike of a pool and of its client's own copy.

Both sides keep the same books, each from the operations alone. Where the digests differ, one of
them is wrong, and from then on blocks go to the wrong requests. O(blocks in use): for tests and
debug modes.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockId, Handle
from kvquarry_core.pool import Pool


@dataclass(frozen=True, slots=True)
class Holding:
    """What one request has.

    Attributes:
        handle: The request.
        held: Blocks it references, by group.
        granted: Blocks granted to it and not spent, by group.
    """

    handle: Handle
    held: Sequence[Collection[BlockId]]
    granted: Sequence[Collection[BlockId]]


def digest_of(holdings: Iterable[Holding], leased: Sequence[Collection[BlockId]]) -> bytes:
    """A digest of all requests and of the leased blocks, by group; order does not matter."""
    requests = [
        (one.handle, [sorted(blocks) for blocks in (*one.held, *one.granted)])
        for one in sorted(holdings, key=lambda one: one.handle)
    ]
    text = repr((requests, [sorted(blocks) for blocks in leased]))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def digest_of_pool(pool: Pool) -> bytes:
    """The digest of a pool's books."""
    holdings = (
        Holding(handle, record.held, record.granted) for handle, record in pool.requests.items()
    )
    return digest_of(holdings, pool.lease.blocks)
