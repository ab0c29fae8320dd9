"""What was drafted, request by request, and the prompts that a wrong draft cache shows at."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from kvquarry_vllm.demo.job import PromptRequest, Wave

_BLOCK_TOKENS = 64
_VOCABULARY = 512
_DECODE_TOKENS = 30
_NUM_SIBLINGS = 4
#: One more block than can be hit, and two more.
_PREFIX_BLOCKS = (1, 2, 1, 2)


def parting_waves() -> tuple[Wave, ...]:
    """Prompts that part from each other exactly where a block ends, soon before they end.

    What a draft's layer keeps of that block's last token is the first prompt's alone, and stands
    out among so few others.
    """
    source = random.Random(7)
    waves: list[Wave] = []
    for num_blocks in _PREFIX_BLOCKS:
        prefix = _words(source, num_blocks * _BLOCK_TOKENS)
        requests = [
            PromptRequest(prefix + _words(source, 3 + index), _DECODE_TOKENS)
            for index in range(_NUM_SIBLINGS)
        ]
        waves += [(requests[0],), tuple(requests[1:])]
    return tuple(waves)


def _words(source: random.Random, count: int) -> tuple[int, ...]:
    return tuple(source.randrange(3, _VOCABULARY) for _ in range(count))


class Drafts:
    """Listens to a scheduler for what it is going to try.

    Left out is what is drafted after a prompt's early chunk, which nobody tries: how a prompt is
    cut into chunks depends on its hit.
    """

    def __init__(self, scheduler: Any) -> None:
        self._by_request: dict[str, list[list[int]]] = defaultdict(list)
        self._requests = scheduler.requests
        self._update = scheduler.update_draft_token_ids
        scheduler.update_draft_token_ids = self._listen

    def in_order(self) -> list[list[list[int]]]:
        """For each request, in the order they were sent, what was drafted after each step."""
        return [self._by_request[name] for name in sorted(self._by_request, key=_number)]

    def _listen(self, drafts: Any) -> None:
        self._update(drafts)
        for request_id in drafts.req_ids:
            request = self._requests.get(request_id)
            if request is not None and request.spec_token_ids:
                self._by_request[request_id].append(list(request.spec_token_ids))


def _number(request_id: str) -> int:
    return int(request_id.partition("-")[0])
