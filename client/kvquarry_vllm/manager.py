"""vLLM's ``KVCacheManager``, answered by a shadow.

The scheduler's calls become a shadow's calls here, and nothing else: token sums follow
``KVCacheManager.allocate_slots`` (see the map of token ranges in its docstring), blocks and hits
are the shadow's and the pool's.
"""

from collections.abc import Sequence
from typing import Any

from vllm.distributed.kv_events import KVCacheEvent
from vllm.v1.metrics.stats import PrefixCacheStats
from vllm.v1.request import Request, RequestStatus

from kvquarry_client.engine import ledger_of
from kvquarry_client.scheduling import Allocation, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_vllm.blocks import BlockIds, DetachedBlocks
from kvquarry_vllm.config import MixedKVCacheConfig
from kvquarry_vllm.events import EventLog, NoEvents
from kvquarry_vllm.line import Line, NoLine
from kvquarry_vllm.manager_parts import Constants, DetachedPool
from kvquarry_vllm.pinning import NoPinning, Pinning, PromptPinning
from kvquarry_vllm.requests import RequestReader, landmarks_of
from kvquarry_vllm.shadow_settings import checkpoints_of, shadow_settings
from kvquarry_vllm.wishes import wishes_of
from kvquarry_vllm.zeroing import MemoryOrders

_ADMITTED_FROM = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


def make_kv_cache_manager(
    kv_cache_config: MixedKVCacheConfig,
    max_model_len: int,
    *,
    scheduler_block_size: int,
    enable_caching: bool = True,
    log_stats: bool = False,
    enable_kv_cache_events: bool = False,
    watermark: float = 0.0,
    **_constants: Any,
) -> "QuarryKVCacheManager":
    """Stand in for ``KVCacheManager(...)`` where the pool is one of ours."""
    checkpoints = checkpoints_of(kv_cache_config, scheduler_block_size) if enable_caching else None
    settings = shadow_settings(kv_cache_config, checkpoints, watermark)
    shadow = Shadow(kv_cache_config.plan, ledger_of(kv_cache_config.pool_id), settings)
    return QuarryKVCacheManager(
        kv_cache_config,
        shadow,
        checkpoints=checkpoints,
        max_model_len=max_model_len,
        log_stats=log_stats,
        enable_kv_cache_events=enable_kv_cache_events,
    )


class QuarryKVCacheManager:
    """Drop-in for ``vllm.v1.core.kv_cache_manager.KVCacheManager``; one scheduler calls it."""

    #: Hits end at block boundaries: no copy-on-write of partly filled blocks.
    mamba_shared_prefix_checkpoint = False

    def __init__(
        self,
        kv_cache_config: MixedKVCacheConfig,
        shadow: Shadow,
        *,
        checkpoints: Checkpoints | None,
        max_model_len: int,
        log_stats: bool,
        enable_kv_cache_events: bool,
    ) -> None:
        self.kv_cache_config = kv_cache_config
        self.max_model_len = max_model_len
        self.enable_caching = checkpoints is not None
        self.log_stats = log_stats
        self.num_kv_cache_groups = len(kv_cache_config.kv_cache_groups)
        self.empty_kv_cache_blocks = BlockIds([[] for _ in range(self.num_kv_cache_groups)])
        self.shadow = shadow
        self.checkpoints = checkpoints
        #: Who waits; no scheduler is known before it has made its manager.
        self.line: Line = NoLine()
        self.coordinator = Constants(kv_cache_config)
        self.block_pool = DetachedPool(shadow)
        self._reader = RequestReader(shadow.plan, max_model_len)
        self.prefix_cache_stats = PrefixCacheStats() if log_stats else None
        self._pinning: PromptPinning = Pinning(shadow) if checkpoints else NoPinning()
        self._events = (
            EventLog(shadow.plan, kv_cache_config) if enable_kv_cache_events else NoEvents()
        )

    # Admission.

    def get_computed_blocks(self, request: Request) -> tuple[BlockIds, int, int]:
        """The longest hit of a waiting request: blocks, tokens, junction.

        Touches the hit and holds blocks for the request's first chunk until the next step.
        """
        next_in_line = map(self._waiting, self.line.behind(request))
        lookup = self.shadow.lookup(self._waiting(request), next_in_line)
        self._events.hear_evictions(self.shadow.ledger)
        if lookup.hit_tokens and getattr(request, "kv_cache_report_mode", "") == "full":
            self._events.hit(request, lookup.block_ids)
        return BlockIds(lookup.block_ids), lookup.hit_tokens, lookup.junction_tokens

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: BlockIds | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
        skip_zeroing_group_ids: tuple[int, ...] = (),
    ) -> BlockIds | None:
        """Blocks for a request's next tokens, or None where they are not to be had.

        See ``KVCacheManager.allocate_slots``. Whether all of a request must fit was decided when
        it was looked up; what an external cache would bring is refused at start.
        """
        assert not num_external_computed_tokens, "external caches are refused at start"
        num_computed = request.num_computed_tokens + num_new_computed_tokens
        num_tokens = num_computed + num_new_tokens
        num_slots = min(num_tokens + num_lookahead_tokens, self.max_model_len)
        num_processed = max(0, num_computed - request.num_in_flight_tokens)
        running = self.shadow.find(request.request_id)
        if running is not None and self.shadow.is_quiet(running, num_slots, num_processed):
            return self.empty_kv_cache_blocks
        allocation = Allocation(num_tokens, num_slots, num_processed)
        if running is not None:
            granted = running if self.shadow.allocate(running, allocation) else None
        else:
            keep_free = has_scheduled_reqs and request.status in _ADMITTED_FROM
            granted = self.shadow.allocate_first(
                self._waiting(request), allocation, keep_free=keep_free
            )
            if granted is not None:
                self._pinning.expect(request, wishes_of(request))
        if granted is None:
            return None
        self.cache_blocks(request, min(num_tokens, request.num_tokens))
        return BlockIds(self.shadow.tell(granted.new_block_ids()))

    def record_prefix_cache_stats(self, request: Request, num_hits: int) -> None:
        """A lookup led to an admission."""
        if self.prefix_cache_stats is not None and self.prefix_cache_lookup_enabled(request):
            self.prefix_cache_stats.record(
                num_tokens=request.num_tokens,
                num_hits=num_hits,
                preempted=request.num_preemptions > 0,
            )

    def prefix_cache_lookup_enabled(self, request: Request) -> bool:
        """Whether a request may be answered from the cache."""
        return self.enable_caching and not request.skip_reading_prefix_cache

    # Content.

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Make the full blocks of a request's first tokens findable."""
        if not self.enable_caching:
            return
        commits = self.shadow.commit(
            request.request_id, request.block_hashes, num_computed_tokens, landmarks_of(request)
        )
        if commits:
            self._events.hear_evictions(self.shadow.ledger)
            self._events.committed(request, commits)
        self._pinning.note_cached(request, num_computed_tokens)

    def remove_skipped_blocks(
        self,
        request_id: str,
        processed_computed_tokens: int,
        num_prompt_tokens: int | None = None,
    ) -> None:
        """Give up blocks that nobody reads any more."""
        self.shadow.retire(request_id, processed_computed_tokens)

    def estimate_cached_tokens(self, request: Request) -> int:
        """Tokens of a request that are findable now."""
        found = self.shadow.find(request.request_id)
        return found.cached_tokens if found else 0

    def reset_prefix_cache(self) -> bool:
        """Forget all cached content; False while requests hold blocks."""
        if not self.shadow.reset_cache():
            return False
        self.shadow.ledger.take_evictions()
        self._events.cleared()
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def evict_blocks(self, block_ids: set[int]) -> None:
        """vLLM names blocks by id alone, which means nothing where blocks have several sizes."""
        raise NotImplementedError("only external caches evict by block id; they are refused")

    # The end of a request.

    def free(self, request: Request) -> None:
        """A request is over."""
        self._pinning.forget(request.request_id)
        self.shadow.free(request.request_id)

    def pop_blocks_for_free(self, request: Request) -> list[DetachedBlocks]:
        """A request is over, but a step in flight may still write its blocks.

        Returns:
            What ``block_pool.free_blocks`` takes once that step has completed.
        """
        self._pinning.forget(request.request_id)
        handle = self.shadow.detach(request.request_id)
        return [] if handle is None else [DetachedBlocks(handle)]

    # Steps.

    def new_step_starts(self) -> None:
        """What the last step did not use goes back."""
        self.shadow.begin_step()

    def take_new_block_ids(self) -> MemoryOrders:
        """What to move and to zero; the last call while a step is planned, so that is sent now."""
        by_class = self.shadow.take_blocks_to_zero()
        moves = self.shadow.take_moves()
        self.shadow.end_step()
        return MemoryOrders(tuple(map(tuple, by_class)), tuple(moves))

    def take_events(self) -> list[KVCacheEvent]:
        """KV events since the last call.

        The last call when a step's output was processed: what that freed is sent now, since an
        idle engine has no next step.
        """
        self.shadow.end_step()
        self._events.hear_evictions(self.shadow.ledger)
        return self._events.take()

    def take_kv_cache_block_copies(self) -> tuple[list[Any], list[Any]]:
        """None: hits end at block boundaries."""
        return [], []

    def take_boundary_state_offloads(self) -> dict[str, list[tuple[int, int, int]]]:
        """None: external caches are refused."""
        return {}

    # Reading.

    @property
    def usage(self) -> float:
        """Share of the pool in use, as last heard."""
        return self.shadow.ledger.used_fraction()

    def make_prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Statistics since the last call, or None where nobody logs them."""
        stats = self.prefix_cache_stats
        if stats is not None:
            self.prefix_cache_stats = PrefixCacheStats()
        return stats

    def get_blocks(self, request_id: str) -> BlockIds:
        """A request's whole block tables."""
        found = self.shadow.find(request_id)
        return BlockIds(found.block_ids()) if found else self.empty_kv_cache_blocks

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        """A request's whole block tables, as ids."""
        return tuple(list(ids) for ids in self.get_blocks(request_id).ids)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """Cascade attention is gone from vLLM: always zeros."""
        return [0] * self.num_kv_cache_groups

    def create_kv_cache_blocks(self, blocks: tuple[Sequence[Any], ...]) -> BlockIds:
        """Wrap blocks vLLM holds."""
        return BlockIds([[block.block_id for block in group] for group in blocks])

    def truncate_computed_blocks(self, blocks: BlockIds, num_computed_tokens: int) -> BlockIds:
        """Only a partial hit is ever truncated, and hits end at block boundaries."""
        raise NotImplementedError("hits end at block boundaries: there is nothing to truncate")

    def _waiting(self, request: Request) -> Waiting:
        enabled = self.prefix_cache_lookup_enabled(request)
        return self._reader.waiting(request, request.block_hashes if enabled else ())
