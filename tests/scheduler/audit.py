"""Laws of ownership: in every step, what the manager says against what the worker did."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler

from tests.scheduler.layout import NULL_BLOCK, GroupLayout, PoolLayout
from tests.scheduler.resident import Span
from tests.scheduler.violation import Violation
from tests.scheduler.worker import ScriptedWorker, StepRecord

Tables = Mapping[str, tuple[list[int], ...]]


class OwnershipAudit:
    """No byte belongs to two live blocks, and a block has one writer.

    Nobody else may even hold a state while it is written. An attention block may be found and held
    by others in the very step that writes it: attention reads after all slots are written.

    The manager's tables are the truth about ownership. The worker's may lag: it keeps the ids of
    states that were retired, which it must not use any more.
    """

    def __init__(self, scheduler: Scheduler, worker: ScriptedWorker) -> None:
        self._scheduler = scheduler
        self._worker = worker
        self._layout = worker.memory.layout
        self._grains = _Grains(self._layout)

    def step_ran(self, output: SchedulerOutput, record: StepRecord) -> None:
        """Check one step."""
        tables = {
            request.request_id: self._scheduler.kv_cache_manager.get_block_ids(request.request_id)
            for request in self._scheduler.running
        }
        self._check_same_tables(tables)
        for span in (*record.reads, *record.writes):
            _check_held(tables, span)
        counts = [self._count(tables, group) for group in self._layout.groups]
        for span in record.writes:
            if self._layout.groups[span.group].holds_states:
                _check_sole(counts[span.group], span)
        _check_one_writer(record.writes)
        self._check_no_overlap(counts)

    def _check_same_tables(self, tables: Tables) -> None:
        for request_id, columns in tables.items():
            resident = self._worker.residents[request_id]
            for index, (told, held) in enumerate(zip(resident.tables, columns, strict=True)):
                if told.blocks != held:
                    _check_only_retired(request_id, index, told.blocks, held)

    def _count(self, tables: Tables, group: GroupLayout) -> np.ndarray:
        """How often requests hold each block of a group."""
        held = [block for columns in tables.values() for block in columns[group.index]]
        counts = np.bincount(np.array(held, dtype=np.int64), minlength=group.num_blocks)
        if len(counts) > group.num_blocks:
            raise Violation(f"group {group.index} has no block {len(counts) - 1}")
        counts[NULL_BLOCK] = 0
        return counts

    def _check_no_overlap(self, counts: Iterable[np.ndarray]) -> None:
        occupancy = np.zeros(self._grains.num_grains, dtype=np.int64)
        for group, count in zip(self._layout.groups, counts, strict=True):
            grains = self._grains.of(group, np.flatnonzero(count))
            occupancy[grains] += 1
        if (occupancy > 1).any():
            grain = int(occupancy.argmax())
            names = [
                f"block {self._grains.block_at(group, grain)} of group {group.index}"
                for group, count in zip(self._layout.groups, counts, strict=True)
                if count[self._grains.block_at(group, grain)]
            ]
            raise Violation(f"the same bytes belong to {' and '.join(names)}")


def num_blocks_in_tables(scheduler: Scheduler) -> int:
    """Different blocks in the tables of running requests; groups never share one."""
    tables = [
        scheduler.kv_cache_manager.get_block_ids(request.request_id)
        for request in scheduler.running
    ]
    return sum(
        len({block for column in columns for block in column} - {NULL_BLOCK})
        for columns in zip(*tables, strict=True)
    )


class DeferralAudit:
    """With deferred frees, blocks a step in flight may write are not handed to others before."""

    def __init__(self, worker: ScriptedWorker) -> None:
        self._worker = worker
        self._layout = worker.memory.layout
        self._grains = _Grains(self._layout)
        self._in_flight: deque[dict[int, str]] = deque()

    def step_ran(self, output: SchedulerOutput, record: StepRecord) -> None:
        """Check one step against those that the scheduler has not heard of."""
        while len(self._in_flight) >= self._worker.num_undelivered:
            self._in_flight.popleft()
        writers: dict[int, str] = {}
        for span in record.writes:
            group = self._layout.groups[span.group]
            for grain in self._grains.of(group, np.array(span.blocks)).tolist():
                self._check_writer(grain, span)
                writers[grain] = span.request_id
        self._in_flight.append(writers)

    def _check_writer(self, grain: int, span: Span) -> None:
        for writers in self._in_flight:
            writer = writers.get(grain, span.request_id)
            if writer != span.request_id:
                raise Violation(
                    f"{span.request_id} was given bytes of group {span.group}, blocks "
                    f"{span.blocks}, that a step in flight writes for {writer}"
                )


class _Grains:
    """The pool in units that no block of any group divides."""

    def __init__(self, layout: PoolLayout) -> None:
        sizes = [size for group in layout.groups for size in (group.stride, group.first_cell)]
        self._cells = math.gcd(*sizes)
        self.num_grains = -(-layout.num_cells // self._cells)

    def of(self, group: GroupLayout, blocks: np.ndarray) -> np.ndarray:
        """The grains that different blocks of a group cover, padding included."""
        starts = group.starts(blocks) // self._cells
        return (starts[:, None] + np.arange(group.stride // self._cells)).ravel()

    def block_at(self, group: GroupLayout, grain: int) -> int:
        """The block of a group that covers a grain."""
        return (grain * self._cells - group.first_cell) // group.stride


def _check_only_retired(request_id: str, group: int, told: list[int], held: list[int]) -> None:
    same_length = len(told) == len(held)
    if not same_length or any(b not in (a, NULL_BLOCK) for a, b in zip(told, held, strict=True)):
        raise Violation(
            f"the worker was told {told} for {request_id} in group {group}, the manager says {held}"
        )


def _check_held(tables: Tables, span: Span) -> None:
    held = tables[span.request_id][span.group][span.column : span.column + len(span.blocks)]
    if held != span.blocks:
        raise Violation(
            f"{span.request_id} uses blocks {span.blocks} of group {span.group} from column "
            f"{span.column} on, but holds {held}"
        )


def _check_sole(counts: np.ndarray, span: Span) -> None:
    for block in span.blocks:
        if counts[block] != 1:
            raise Violation(
                f"{span.request_id} writes block {block} of group {span.group}, "
                f"which {int(counts[block])} requests hold"
            )


def _check_one_writer(writes: Iterable[Span]) -> None:
    writers: dict[tuple[int, int], str] = {}
    for span in writes:
        for block in span.blocks:
            writer = writers.setdefault((span.group, block), span.request_id)
            if writer != span.request_id:
                raise Violation(
                    f"{span.request_id} and {writer} both write block {block} of group {span.group}"
                )
