"""The KV caches, schedulers and workloads that the tests here have in common."""

from __future__ import annotations

from dataclasses import replace

from tests.scheduler.geometry import NUM_LAYERS_PER_GROUP, Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.settings import SchedulerSettings
from tests.scheduler.simulation import PIPELINED, STEPPED
from tests.scheduler.stock import StockPools
from tests.scheduler.worker import DraftScript
from tests.scheduler.workload import Mix

LOOPS = (STEPPED, PIPELINED)
NUM_DRAFTS = 3

#: Full attention alone: one size.
ATTENTION = Geometry()
#: Attention and three groups of states, 2.7 attention blocks each: two sizes, no whole ratio.
MIXED = Geometry(state_bytes=2752, num_state_groups=3)
#: States exactly as large as attention blocks: two kinds of content, one size.
EVEN = Geometry(state_bytes=1024, num_state_groups=3)
#: Full attention beside a sliding window that begins within a block, and beside local chunks.
SLIDING = Geometry(sliding_tokens=70)
CHUNKED = Geometry(chunk_tokens=64)
#: Two sizes of attention by nature, and blocks of two lengths: hits end where both do.
TWO_SIZES = Geometry(sliding_tokens=70, sliding_slot_bytes=168)
TWO_LENGTHS = Geometry(sliding_tokens=70, sliding_block_tokens=32, sliding_slot_bytes=32)
#: Everything at once.
WINDOWS_AND_STATES = Geometry(
    sliding_tokens=70, chunk_tokens=64, state_bytes=2752, num_state_groups=2
)

PLAIN = SchedulerSettings()
DRAFTING = SchedulerSettings(drafts=DraftScript(NUM_DRAFTS, acceptance_percent=60))
EAGLE = SchedulerSettings(drafts=DraftScript(NUM_DRAFTS, acceptance_percent=60, method="eagle"))

BUSY = Mix(arrivals_per_turn=0.5, output_tokens=80)
RESETTING = replace(BUSY, reset_percent=3)
#: Many short requests want states, a few long ones want attention: memory changes hands.
MANY_SHORT = Mix(arrivals_per_turn=1.5, prompt_tokens=40, suffix_tokens=20, output_tokens=12)
FEW_LONG = Mix(arrivals_per_turn=0.2, prompt_tokens=400, suffix_tokens=300, output_tokens=80)


def with_drafts(geometry: Geometry) -> Geometry:
    """The same cache for a model whose drafts have states of their own."""
    return replace(geometry, num_drafts=NUM_DRAFTS)


def with_draft_layers(geometry: Geometry) -> Geometry:
    """The same cache beside that of layers that draft, whose pages are half as large again."""
    return replace(with_drafts(geometry), draft_slot_bytes=96)


def one_size_pools(geometry: Geometry, num_blocks: int) -> tuple[StockPools, QuarryPools]:
    """Stock vLLM and kvquarry with equally many blocks, where all blocks have one size."""
    memory_bytes = num_blocks * geometry.page_bytes * NUM_LAYERS_PER_GROUP
    return StockPools(geometry, num_blocks), QuarryPools(geometry, memory_bytes)
