"""How much one caller may ask of the service, so that a hostile one cannot take it down.

All of this is checked before the plan is made: the accounting of its blocks costs memory in
proportion. Making it takes a fraction of a second, whatever the sizes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.errors import PlanError, Reason, UsageError
from kvquarry_core.plan import GroupSpec
from kvquarry_server.faults import TooManyBlocks

_LONGEST_ENGINE_NAME = 253
_LONGEST_TEXT = 1024
_MOST_WORKERS = 65_536
_MOST_GROUPS = 64
_MOST_LAYERS = 1024
_MOST_PAGE_SIZES = 8
_LONGEST_DIGEST_BYTES = 64
_LONGEST_HASH_BYTES = 64
_MOST_OPERATIONS = 65_536
# A step of 65,536 tokens commits as many blocks if they hold one token each.
_MOST_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service holds at most.

    Attributes:
        num_pools: Pools; also bounds the series of the metrics.
        num_blocks: Blocks in all pools; their accounting takes 33 to 60 bytes each.
        num_requests: Requests in one pool.
        num_strangers: Open streams that have not said hello yet.
    """

    num_pools: int = 64
    num_blocks: int = 16_000_000
    num_requests: int = 65_536
    num_strangers: int = 256


def check_engine(name: str) -> None:
    """An engine's name is a label: short, visible, one word."""
    if not 1 <= len(name) <= _LONGEST_ENGINE_NAME or not name.isprintable() or " " in name:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"an engine's name has 1 to {_LONGEST_ENGINE_NAME} printable characters without "
            f"spaces, unlike {name[:_LONGEST_ENGINE_NAME]!r}; set KVQUARRY_ENGINE",
        )


def check_text(what: str, text: str) -> None:
    """Text for people is short and visible: it is shown in terminals and logs."""
    if len(text) > _LONGEST_TEXT or not text.isprintable():
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"{what} has at most {_LONGEST_TEXT} printable characters, unlike {text[:80]!r}",
        )


def check_digest(digest: bytes) -> None:
    """A digest of nothing would agree with every other."""
    if not 1 <= len(digest) <= _LONGEST_DIGEST_BYTES:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a digest has 1 to {_LONGEST_DIGEST_BYTES} bytes, not {len(digest)}",
        )


def check_hashes(hashes: Sequence[bytes]) -> None:
    """What is kept for every block must be small, and name something."""
    lengths = set(map(len, hashes))
    if lengths and not 1 <= min(lengths) <= max(lengths) <= _LONGEST_HASH_BYTES:
        wrong = next(one for one in lengths if not 1 <= one <= _LONGEST_HASH_BYTES)
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a block's hash has 1 to {_LONGEST_HASH_BYTES} bytes, not {wrong}",
        )


def check_num_operations(num_operations: int) -> None:
    """One batch must not hold up everybody else."""
    if num_operations > _MOST_OPERATIONS:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"a batch has at most {_MOST_OPERATIONS} operations, not {num_operations}; send "
            "several, and rows of one sort as columns of one operation",
        )


def check_num_rows(num_rows: int) -> None:
    """All rows of an operation are checked before the first is applied: they must not be endless.

    Guarded by test_an_operation_with_too_many_rows_is_a_mistake_like_others.
    """
    if num_rows > _MOST_ROWS:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"an operation has at most {_MOST_ROWS} rows, not {num_rows}; send several operations",
        )


def check_num_workers(num_workers: int) -> None:
    """Somebody must hold the memory."""
    if not 1 <= num_workers <= _MOST_WORKERS:
        raise UsageError(
            Reason.INVALID_ARGUMENT,
            f"an engine has 1 to {_MOST_WORKERS} workers, not {num_workers}",
        )


def check_geometry(groups: Sequence[GroupSpec], pool_bytes: int, *, most_blocks: int) -> None:
    """There is a plan, and the accounting of its blocks fits into memory.

    Raises:
        PlanError: No plan is to be had of such groups or so little memory.
        TooManyBlocks: The blocks are more than ``most_blocks``.
    """
    _check_groups(groups)
    pages = sorted({group.page_bytes for group in groups})
    region_bytes = pool_bytes // max(group.num_layers for group in groups)
    num_blocks = sum(region_bytes // page for page in pages)
    if num_blocks > most_blocks:
        raise TooManyBlocks(
            f"{pool_bytes} bytes make up to {num_blocks} blocks of {pages} bytes a layer; the "
            f"service has room for {most_blocks} more; use larger blocks or fewer bytes"
        )
    slab_bytes = _smallest_slab_bytes(groups)
    if slab_bytes > region_bytes:
        raise PlanError(
            Reason.POOL_TOO_SMALL,
            f"blocks of {pages} bytes a layer have no slab smaller than {_shown(slab_bytes)} "
            f"bytes, and a layer's part of {pool_bytes} bytes is {region_bytes}",
        )


def _check_groups(groups: Sequence[GroupSpec]) -> None:
    if not 1 <= len(groups) <= _MOST_GROUPS:
        raise PlanError(
            Reason.INVALID_GROUPS,
            f"a pool has 1 to {_MOST_GROUPS} KV cache groups, not {len(groups)}",
        )
    for index, group in enumerate(groups):
        sizes = (group.block_tokens, group.page_bytes, group.num_layers, group.alignment_bytes)
        if min(sizes) < 1:
            raise PlanError(Reason.INVALID_GROUPS, f"group {index} has a size of 0: {group}")
        if group.num_layers > _MOST_LAYERS:
            raise PlanError(
                Reason.INVALID_GROUPS, f"group {index} has more than {_MOST_LAYERS} layers: {group}"
            )
    if len({group.page_bytes for group in groups}) > _MOST_PAGE_SIZES:
        raise PlanError(
            Reason.INVALID_GROUPS, f"a pool has at most {_MOST_PAGE_SIZES} different page sizes"
        )


def _unit_bytes(groups: Sequence[GroupSpec]) -> int:
    """What every slab is a multiple of, as in :func:`kvquarry_core.plan.make_plan`."""
    unpadded = {group.page_bytes for group in groups if not group.may_be_padded}
    return math.lcm(*(unpadded or (group.alignment_bytes for group in groups)))


def _smallest_slab_bytes(groups: Sequence[GroupSpec]) -> int:
    """The slab that holds one block of the largest class; one class alone needs no slabs."""
    pages = {group.page_bytes for group in groups}
    if len(pages) == 1:
        return max(pages)
    unit = _unit_bytes(groups)
    return -(-max(pages) // unit) * unit


def _shown(size_bytes: int) -> str:
    return str(size_bytes) if size_bytes < 1 << 64 else "2^64"
