"""vLLM's requests as a shadow knows them."""

import functools
from collections.abc import Sequence

from vllm.v1.request import Request

from kvquarry_client.scheduling import Waiting
from kvquarry_core.ids import BlockHash
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.retention import Landmarks
from kvquarry_vllm.wishes import wishes_of


class RequestReader:
    """Reads of a request what its admission depends on."""

    def __init__(self, plan: Plan, max_model_len: int) -> None:
        self._max_model_len = max_model_len
        self._has_encoder = any(group.kind is GroupKind.CROSS_ATTENTION for group in plan.groups)

    def waiting(self, request: Request, hashes: Sequence[BlockHash]) -> Waiting:
        """A waiting request that may hit content under these hashes."""
        most_tokens = request.num_prompt_tokens + request.max_tokens
        return Waiting(
            request.request_id,
            hashes,
            min(request.num_tokens, self._max_model_len),
            self._encoder_tokens(request),
            min(most_tokens, self._max_model_len),
            wishes_of(request).priority,
        )

    def _encoder_tokens(self, request: Request) -> int:
        """As the scheduler counts them when it schedules all of a request's encoder inputs."""
        if not self._has_encoder:
            return 0
        inputs = range(len(request.mm_features))
        return sum(request.get_num_encoder_embeds(index) for index in inputs)


def landmarks_of(request: Request) -> Landmarks:
    """Where a request's text is known to be gone on from."""
    return _landmarks(request.num_prompt_tokens - 1, request.shared_prefix_boundary)


@functools.lru_cache(maxsize=4096)
def _landmarks(prompt_end: int, junction: int) -> Landmarks:
    """The same object for the same places: a request's are asked for whenever a block is full."""
    return Landmarks((prompt_end,), (junction,) if junction else ())
