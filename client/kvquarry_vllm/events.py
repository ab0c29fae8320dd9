"""KV events: what becomes findable and what no longer is, told to routers by group."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from vllm.distributed.kv_events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
)
from vllm.v1.core.kv_cache_utils import (
    generate_block_hash_extra_keys,
    maybe_convert_block_hash,
    to_event_extra_keys,
)
from vllm.v1.kv_cache_interface import KVCacheConfig, get_kv_cache_spec_kind
from vllm.v1.request import Request

from kvquarry_client.ledger import Ledger
from kvquarry_client.scheduling import Committed
from kvquarry_core.ids import NULL_BLOCK, BlockHash, BlockId, GroupId
from kvquarry_core.plan import Plan
from kvquarry_vllm.own_hashes import OwnHashes


class EventLog:
    """Builds vLLM's events out of commits and evictions, in the order in which they happened."""

    def __init__(self, plan: Plan, kv_cache_config: KVCacheConfig) -> None:
        self._plan = plan
        self._kind_names = [
            get_kv_cache_spec_kind(group.kv_cache_spec).value
            for group in kv_cache_config.kv_cache_groups
        ]
        self._own_hashes = OwnHashes(plan)
        self._events: list[KVCacheEvent] = []

    def hear_evictions(self, ledger: Ledger) -> None:
        """What can no longer be found by now."""
        for eviction in ledger.take_evictions():
            own_hash = self._own_hashes.forget(eviction.kind, eviction.block_hash)
            if own_hash is None:
                continue
            hashes = [maybe_convert_block_hash(own_hash)]
            for group in self._plan.kinds[eviction.kind]:
                self._events.append(BlockRemoved(hashes, MEDIUM_GPU, group_idx=group))

    def committed(self, request: Request, commits: Iterable[Committed]) -> None:
        """Blocks of a request can be found from now on."""
        for commit in commits:
            block_tokens = self._plan.spec_of_kind(commit.kind).block_tokens
            own_hashes = self._hashes_at(request, block_tokens, commit.positions)
            self._own_hashes.note(commit.kind, commit.names, own_hashes)
            for run in _runs(commit.positions):
                for group in self._plan.kinds[commit.kind]:
                    self._events.append(self._stored(request, group, run))

    def hit(self, request: Request, block_ids: Sequence[Sequence[BlockId]]) -> None:
        """A request that reports all its blocks found these, by group.

        Where there is the null block, nothing was looked for, and a router must not believe in it.
        """
        for index, blocks in enumerate(block_ids):
            found = [position for position, block in enumerate(blocks) if block != NULL_BLOCK]
            for run in _runs(found):
                self._events.append(self._stored(request, GroupId(index), run))

    def cleared(self) -> None:
        """The whole cache was forgotten."""
        self._own_hashes.clear()
        self._events.append(AllBlocksCleared())

    def take(self) -> list[KVCacheEvent]:
        """Everything since the last call."""
        taken, self._events = self._events, []
        return taken

    def _stored(self, request: Request, group: GroupId, run: Sequence[int]) -> BlockStored:
        block_tokens = self._plan.groups[group].block_tokens
        first, last = run[0], run[-1]
        extra_keys, media = [], 0
        for position in run:
            start = position * block_tokens
            keys, media = generate_block_hash_extra_keys(
                request, start, start + block_tokens, media
            )
            extra_keys.append(keys)
        hashes = self._hashes_at(request, block_tokens, run)
        [parent] = self._hashes_at(request, block_tokens, [first - 1]) if first else [None]
        lora = request.lora_request
        return BlockStored(
            block_hashes=[maybe_convert_block_hash(block_hash) for block_hash in hashes],
            parent_block_hash=None if parent is None else maybe_convert_block_hash(parent),
            token_ids=request.all_token_ids[first * block_tokens : (last + 1) * block_tokens],
            block_size=block_tokens,
            lora_id=lora.adapter_id if lora else None,
            medium=MEDIUM_GPU,
            lora_name=lora.name if lora else None,
            extra_keys=to_event_extra_keys(extra_keys),
            group_idx=group,
            kv_cache_spec_kind=self._kind_names[group],
            session_id=request.session_id,
        )

    def _hashes_at(
        self, request: Request, block_tokens: int, positions: Iterable[int]
    ) -> list[BlockHash]:
        """What routers call some blocks of a request, whatever names the pool finds them under."""
        units = block_tokens // self._plan.hash_tokens
        return [BlockHash(request.block_hashes[(one + 1) * units - 1]) for one in positions]


class NoEvents:
    """Nobody listens."""

    def hear_evictions(self, ledger: Ledger) -> None:
        """Nothing: the pool was opened without."""

    def committed(self, request: Request, commits: Iterable[Committed]) -> None:
        """Forget it."""

    def hit(self, request: Request, block_ids: Sequence[Sequence[BlockId]]) -> None:
        """Forget it."""

    def cleared(self) -> None:
        """Forget it."""

    def take(self) -> list[KVCacheEvent]:
        """Nothing."""
        return []


def _runs(positions: Sequence[int]) -> Iterator[list[int]]:
    """Neighbouring positions together: an event names one parent and one stretch of tokens."""
    ranked = enumerate(positions)
    for _, run in itertools.groupby(ranked, key=lambda pair: pair[1] - pair[0]):
        yield [position for _, position in run]
