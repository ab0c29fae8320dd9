"""Index types. No bare int crosses a module boundary where two of these could be confused."""

from typing import NewType

#: Index of a KV cache group: layers that share one block table.
GroupId = NewType("GroupId", int)
#: Index of a kind: groups with equal specs, looked up, committed and evicted together.
KindId = NewType("KindId", int)
#: Index of a size class: blocks of one byte size with their own view of the memory.
ClassId = NewType("ClassId", int)
#: Index of a slab: a fixed stretch of the pool that belongs to one size class at a time.
SlabId = NewType("SlabId", int)
#: Index of a block within its size class; block ``i`` starts at byte ``i * stride``.
BlockId = NewType("BlockId", int)
#: A request as its attachment numbers it; a request admitted again gets a new handle.
Handle = NewType("Handle", int)
#: Digest of a full block chained on its parent's, made by the engine. Opaque bytes: two
#: hashes are equal only if the whole prefix is, so the full digest must be kept.
BlockHash = NewType("BlockHash", bytes)

#: Handles run from 0 to this: one more than a handle is kept in four bytes per block.
LARGEST_HANDLE = (1 << 32) - 2
#: The placeholder for a skipped position in every size class; never taken, never freed.
NULL_BLOCK = BlockId(0)
