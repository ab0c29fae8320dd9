"""One engine's scheduler without an engine: it steps a shadow through made-up requests.

The messages to the service are those of a real engine, since the real shadow and the real ledger
make them; only what a model would compute in between is missing.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_client.scheduling import Allocation, ShadowSettings, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.plan import GroupKind, GroupSpec, Plan
from kvquarry_core.retention import Boundaries, Landmarks
from loadtest.traffic import MadeUpRequest

_BLOCK_TOKENS = 16
_CHUNK_TOKENS = 512
_MOST_RUNNING = 16

#: Qwen3.6-35B-A3B on one device, as vLLM groups it: 30 layers of state, 10 of attention.
GROUPS = (
    *[GroupSpec(GroupKind.RECURRENT_STATE, _BLOCK_TOKENS, 2_146_304, 10)] * 3,
    GroupSpec(GroupKind.FULL_ATTENTION, _BLOCK_TOKENS, 2048 * _BLOCK_TOKENS, 10),
)
#: Small enough that content is evicted and requests wait; nothing of it is really there.
POOL_BYTES = 2 << 30


def shadow_settings(plan: Plan) -> ShadowSettings:
    """What such an engine decides once."""
    return ShadowSettings(
        max_grant_tokens=_CHUNK_TOKENS,
        lookahead_tokens=0,
        must_fit_whole=True,
        keep_free_blocks=(),
        checkpoints=Checkpoints(Boundaries(), plan.hash_tokens),
    )


class PoolNotEmpty(Exception):
    """A pool whose engine has freed everything still counts requests."""


@dataclass(slots=True)
class _Running:
    """A request that holds blocks, how far it has come, and where others parted from it."""

    request: MadeUpRequest
    num_computed: int
    junction_tokens: int

    def next_end(self) -> int:
        """Where the next chunk ends: at the junction, on a block's boundary, or with the prompt.

        After the prompt every chunk is one token.
        """
        prompt_tokens = self.request.prompt_tokens
        if self.num_computed >= prompt_tokens:
            return self.num_computed + 1
        end = min(self.num_computed + _CHUNK_TOKENS, prompt_tokens)
        if self.num_computed < self.junction_tokens:
            end = min(end, self.junction_tokens)
        return end if end == prompt_tokens else end - end % _BLOCK_TOKENS


class EngineSession:
    """A scheduler over a shadow: running requests first, then as many waiting ones as fit."""

    def __init__(self, shadow: Shadow, requests: Iterator[MadeUpRequest]) -> None:
        self.num_admitted = 0
        self.num_finished = 0
        self.num_preempted = 0
        self._shadow = shadow
        self._requests = requests
        self._running: list[_Running] = []
        self._waiting: deque[MadeUpRequest] = deque()

    def step(self) -> None:
        """One scheduler step: every running request comes one chunk or one token further."""
        self._shadow.begin_step()
        for running in list(self._running):
            if running in self._running:
                self._advance(running)
        self._admit()
        self._shadow.end_step()

    def finish(self) -> None:
        """Free everything and forget all content.

        Raises:
            PoolNotEmpty: Somebody still holds blocks: an operation was lost, here or there.
        """
        while self._running:
            self._shadow.free(self._running.pop().request.request_id)
        if not self._shadow.reset_cache():
            raise PoolNotEmpty("requests still hold blocks after all of them were freed")

    def _advance(self, running: _Running) -> None:
        request_id = running.request.request_id
        held = self._shadow.find(request_id)
        assert held is not None, f"{request_id} runs but holds no blocks"
        end = running.next_end()
        if self._shadow.allocate(held, Allocation(end, end, running.num_computed)):
            self._computed(running, end)
        else:
            self._preempt()

    def _computed(self, running: _Running, end: int) -> None:
        request = running.request
        running.num_computed = end
        landmarks = Landmarks((request.prompt_tokens - 1,), (running.junction_tokens,))
        self._shadow.commit(request.request_id, request.hashes, end, landmarks)
        if end == request.num_tokens:
            self._shadow.free(request.request_id)
            self._running.remove(running)
            self.num_finished += 1

    def _preempt(self) -> None:
        """The one that came last gives its blocks up and begins again."""
        last = self._running.pop()
        self._shadow.free(last.request.request_id)
        self._waiting.appendleft(last.request)
        self.num_preempted += 1

    def _admit(self) -> None:
        while len(self._running) < _MOST_RUNNING:
            request = self._waiting.popleft() if self._waiting else next(self._requests)
            if not self._start(request):
                self._waiting.appendleft(request)
                return

    def _start(self, request: MadeUpRequest) -> bool:
        num_hashes = request.prompt_tokens // self._shadow.plan.hash_tokens
        waiting = Waiting(request.request_id, request.hashes[:num_hashes], request.prompt_tokens)
        lookup = self._shadow.lookup(waiting)
        running = _Running(request, lookup.hit_tokens, lookup.junction_tokens)
        end = running.next_end()
        held = self._shadow.allocate_first(
            waiting, Allocation(end, end, lookup.hit_tokens), keep_free=bool(self._running)
        )
        if held is None:
            return False
        self._running.append(running)
        self.num_admitted += 1
        self._computed(running, end)
        return True
