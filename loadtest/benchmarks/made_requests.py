"""vLLM requests of a wanted length, hashed before anything is timed: hashing is vLLM's for all."""

import itertools

from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request

_OUTPUT_TOKENS = 20_000
_VOCABULARY = 1000
_numbers = itertools.count(1)


def prepare_hashing() -> None:
    """Once per process, as an engine does."""
    init_none_hash(sha256_cbor)


def make_request(seed: int, num_tokens: int, block_tokens: int) -> Request:
    """A request nobody has seen; those of one seed begin with the same tokens."""
    request = Request(
        request_id=f"request-{next(_numbers)}",
        prompt_token_ids=[seed * 7919 + index % _VOCABULARY for index in range(num_tokens)],
        sampling_params=SamplingParams(max_tokens=_OUTPUT_TOKENS),
        pooling_params=None,
        block_hasher=get_request_block_hasher(block_tokens, sha256_cbor),
    )
    request.arrival_time = 0.0
    return request
