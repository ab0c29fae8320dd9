"""A worker without a model: it does with block ids what vLLM's V1 model runner does with them.

What it is told it takes at its word, as a worker must: tables are appended to, states are where the
tables say. All it computes is whose content lies where, and each read is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

from kvquarry_client.renames import Renames
from kvquarry_core.plan import Plan
from kvquarry_vllm.zeroing import MemoryOrders
from tests.scheduler.draft_layers import DraftLayers
from tests.scheduler.language import Text
from tests.scheduler.layout import GroupLayout
from tests.scheduler.memory import PoolMemory
from tests.scheduler.resident import BlockTable, Chunk, Resident, Span, placeholder_drafts
from tests.scheduler.states import StateLanes

_PLACEHOLDER = -1


@dataclass(frozen=True)
class DraftScript:
    """How many tokens are guessed after each step, and how many of the guesses are right.

    Attributes:
        num_drafts: Guesses after each step.
        acceptance_percent: Those that are right.
        method: Who guesses, as vLLM calls it.
    """

    num_drafts: int = 0
    acceptance_percent: int = 0
    method: str = "ngram"


NO_DRAFTS = DraftScript()


@dataclass(frozen=True)
class StepRecord:
    """What one step did.

    Attributes:
        chunks: Each request's share.
        reads: Blocks that were read, which requests may share.
        writes: Blocks that were written, which only one request may hold.
    """

    chunks: tuple[Chunk, ...]
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


@dataclass(frozen=True)
class _Rejections:
    """Drafts a step rejected, per request and life; the scheduler does not know of them yet."""

    counts: Mapping[tuple[str, int], int]


class ScriptedWorker:
    """Executes scheduler outputs against checked memory, in the order they are issued.

    ``texts`` knows the text of every request by id; requests must be entered there before they are
    submitted.
    """

    def __init__(
        self,
        memory: PoolMemory,
        texts: Mapping[str, Text],
        drafts: DraftScript,
        max_model_len: int,
        plan: Plan | None = None,
    ) -> None:
        """``plan`` is that of a pool whose blocks may move."""
        self.memory = memory
        self.num_moves = 0
        self._plan = plan
        self.residents: dict[str, Resident] = {}
        self._texts = texts
        self._script = drafts
        self._states = StateLanes(memory)
        self.draft_layers = DraftLayers(memory, drafts.num_drafts, max_model_len)
        self._undelivered: deque[_Rejections] = deque()
        self._lives: dict[str, int] = {}

    # What the engine calls.

    def execute(self, output: SchedulerOutput) -> tuple[ModelRunnerOutput, StepRecord]:
        """Run one step."""
        assert not output.kv_cache_block_copies, "copies on write need partial hits"
        self._move(output.new_block_ids_to_zero)
        for request_id in output.finished_req_ids:
            self.residents.pop(request_id, None)
        if output.new_block_ids_to_zero:
            self._zero(output.new_block_ids_to_zero)
        for request_id in output.preempted_req_ids or ():
            self._forget_state(request_id)
        for new in output.scheduled_new_reqs:
            self._join(new)
        self._go_on(output.scheduled_cached_reqs)
        chunks = tuple(
            self._chunk(request_id, num_tokens, output)
            for request_id, num_tokens in output.num_scheduled_tokens.items()
        )
        record = self._run(chunks)
        return self._sample(chunks), record

    def deliver(self) -> None:
        """The scheduler gets to know the oldest step's output."""
        self._undelivered.popleft()

    @property
    def num_undelivered(self) -> int:
        """Steps that ran and that the scheduler has not heard of."""
        return len(self._undelivered)

    def take_drafts(self, record: StepRecord) -> DraftTokenIds:
        """The guesses made after a step, for a scheduler that plans with the tokens themselves."""
        residents = [chunk.resident for chunk in record.chunks]
        return DraftTokenIds(
            [resident.request_id for resident in residents],
            [list(resident.drafts) for resident in residents],
        )

    # The batch.

    def _move(self, orders: MemoryOrders | list[int] | None) -> None:
        """Before anything else: bytes first, in order, then the tables of whoever has them."""
        if not (isinstance(orders, MemoryOrders) and orders.moves):
            return
        assert self._plan is not None, "blocks move in a pool that has no plan"
        self.num_moves += len(orders.moves)
        for move in orders.moves:
            members = [g for g in self.memory.layout.groups if g.size_class == move.size_class]
            self.memory.copy(members[0], move.source, move.target)
        renames = Renames(self._plan, orders.moves)
        for resident in self.residents.values():
            for group, table in enumerate(resident.tables):
                table.rename(renames, group)

    def _zero(self, blocks: MemoryOrders | list[int]) -> None:
        """Ours names the size class; stock's list is flat and applied to every attention group."""
        if isinstance(blocks, list):
            for group in self.memory.layout.attention:
                self.memory.zero(group, blocks)
            return
        for size_class, ids in enumerate(blocks.by_class):
            members = [g for g in self.memory.layout.groups if g.size_class == size_class]
            self.memory.zero(members[0], list(ids))

    def _join(self, new: NewRequestData) -> None:
        text = self._texts[new.req_id]
        prompt = new.prompt_token_ids or []
        assert text.tokens(0, len(prompt)) == prompt, f"{new.req_id} has another prompt"
        assert new.req_id not in self.residents, f"{new.req_id} joins twice"
        self.residents[new.req_id] = Resident(
            new.req_id,
            text,
            [BlockTable(blocks) for blocks in new.block_ids],
            num_computed=new.num_computed_tokens,
            num_known=len(prompt),
            life=self._next_life(new.req_id),
        )

    def _go_on(self, cached: CachedRequestData) -> None:
        for index, request_id in enumerate(cached.req_ids):
            if request_id in cached.resumed_req_ids:
                self._resume(cached, index)
            else:
                self._append(cached, index)

    def _resume(self, cached: CachedRequestData, index: int) -> None:
        """A preempted request starts over, with a table of its own and all that was said."""
        request_id, blocks = cached.req_ids[index], cached.new_block_ids[index]
        said = cached.all_token_ids[request_id]
        text = self._texts[request_id]
        assert text.tokens(0, len(said)) == said, f"{request_id} came back with another text"
        assert blocks is not None, f"{request_id} came back without blocks"
        self.residents[request_id] = Resident(
            request_id,
            text,
            [BlockTable(ids) for ids in blocks],
            num_computed=cached.num_computed_tokens[index],
            num_known=len(said),
            life=self._next_life(request_id),
        )

    def _append(self, cached: CachedRequestData, index: int) -> None:
        resident = self.residents[cached.req_ids[index]]
        for table, blocks in zip(resident.tables, cached.new_block_ids[index] or (), strict=False):
            table.extend(blocks)
        key = (resident.request_id, resident.life)
        unknown = sum(rejections.counts.get(key, 0) for rejections in self._undelivered)
        planned = cached.num_computed_tokens[index] - unknown
        assert planned == resident.num_computed, (
            f"the scheduler counts {planned} computed tokens of {resident.request_id}, "
            f"the worker {resident.num_computed}"
        )

    def _forget_state(self, request_id: str) -> None:
        if request_id in self.residents:
            self.residents[request_id].state_column = None

    def _next_life(self, request_id: str) -> int:
        self._lives[request_id] = self._lives.get(request_id, 0) + 1
        return self._lives[request_id]

    def _chunk(self, request_id: str, num_tokens: int, output: SchedulerOutput) -> Chunk:
        resident = self.residents[request_id]
        planned = output.scheduled_spec_decode_tokens.get(request_id, [])
        drafts = tuple(planned)
        if _PLACEHOLDER in drafts:
            drafts = placeholder_drafts(resident, len(drafts))
        base = resident.num_computed + num_tokens - len(drafts)
        assert resident.num_computed < base <= resident.num_known, (
            f"{request_id} computes up to {base}, {resident.num_known} tokens are known"
        )
        assert not drafts or base == resident.num_known, f"{request_id} drafts in mid-prefill"
        samples = base == resident.num_known
        return Chunk(resident, resident.num_computed, base, drafts, samples)

    # The forward pass.

    def _run(self, chunks: tuple[Chunk, ...]) -> StepRecord:
        pairs = [(group, chunk) for group in self.memory.layout.of_target for chunk in chunks]
        moved = self._states.move_on(chunks)
        written = [self._write_slots(group, chunk) for group, chunk in pairs]
        went_on = self._states.run(chunks)
        read = [self._read_slots(group, chunk) for group, chunk in pairs]
        saved = self._states.save_boundaries(chunks)
        seen, drafted = self.draft_layers.run(chunks)
        return StepRecord(
            chunks,
            reads=(*moved.sources, *read, *seen),
            writes=(*moved.targets, *written, *went_on, *saved, *drafted),
        )

    def _write_slots(self, group: GroupLayout, chunk: Chunk) -> Span:
        first, last = chunk.start // group.block_tokens, (chunk.stop - 1) // group.block_tokens
        span = chunk.resident.span(group, first, last + 1)
        table = chunk.resident.tables[group.index].array
        self.memory.write_slots(group, table, chunk.start, chunk.fingerprints)
        return span

    def _read_slots(self, group: GroupLayout, chunk: Chunk) -> Span:
        """The oldest token sees as far back as any, the newest the block around it."""
        resident = chunk.resident
        first = group.first_read(chunk.start)
        num_columns = -(-chunk.stop // group.block_tokens)
        span = resident.span(group, first // group.block_tokens, num_columns)
        table = resident.tables[group.index].array
        known = resident.text.fingerprints(first, chunk.base)
        self.memory.check_slots(group, table, first, known, resident.request_id)
        used = chunk.stop - (num_columns - 1) * group.block_tokens
        self.memory.check_tail(group, span.blocks[-1], used, resident.request_id)
        return span

    # Sampling.

    def _sample(self, chunks: tuple[Chunk, ...]) -> ModelRunnerOutput:
        sampled: list[list[int]] = []
        rejected: dict[tuple[str, int], int] = {}
        in_step = {chunk.resident.request_id for chunk in chunks}
        for request_id, resident in self.residents.items():
            if request_id not in in_step:
                resident.drafts = []
        for chunk in chunks:
            resident = chunk.resident
            num_accepted = chunk.num_accepted_drafts
            sampled.append(self._yielded(chunk, num_accepted))
            rejected[resident.request_id, resident.life] = len(chunk.drafts) - num_accepted
            resident.num_computed = chunk.base + num_accepted
            resident.num_known += len(sampled[-1])
            resident.drafts = self._guess(resident) if sampled[-1] else []
        self._undelivered.append(_Rejections(rejected))
        request_ids = [chunk.resident.request_id for chunk in chunks]
        return ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(request_ids)},
            sampled_token_ids=sampled,
        )

    def _yielded(self, chunk: Chunk, num_accepted: int) -> list[int]:
        if not chunk.samples:
            return []
        return chunk.resident.text.tokens(chunk.base, chunk.base + num_accepted + 1)

    def _guess(self, resident: Resident) -> list[int]:
        script = self._script
        return resident.text.drafts(
            resident.num_known, script.num_drafts, script.acceptance_percent
        )
