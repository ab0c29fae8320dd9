"""The prompts that are sent: seeded token ids, so that every engine is asked the same."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE
from kvquarry_vllm.demo.job import EngineResult, PromptRequest, Wave

RESENT_LENGTHS: Final = (300, 600, 1000, 1500)
NUM_SENDINGS: Final = 3
SHARED_PREFIX_TOKENS: Final = 700
SHARED_SUFFIX_TOKENS: Final = 80
NUM_SHARING: Final = 4
CHUNK_TOKENS: Final = 64
"""Tokens that the recurrent prefill kernels take at a time."""
NUM_DECODING: Final = 20
"""Requests of ``equality_waves`` that decode over block boundaries."""
SHORT: Final = range(66, 128)
LONG: Final = range(900, 1000)

_FIRST_ORDINARY_TOKEN: Final = 3
_HIT_DECODE_TOKENS: Final = 4
_BURST_DECODE_TOKENS: Final = 4


def hit_waves(seed: int = 1) -> tuple[Wave, ...]:
    """Prompts of four lengths, each sent three times, then four prompts that share a prefix.

    Each is a wave of its own, so that the one before has finished.
    """
    source = random.Random(seed)
    waves: list[Wave] = []
    for length in RESENT_LENGTHS:
        prompt = _tokens(source, length)
        waves += [(PromptRequest(prompt, _HIT_DECODE_TOKENS),)] * NUM_SENDINGS
    prefix = _tokens(source, SHARED_PREFIX_TOKENS)
    for _ in range(NUM_SHARING):
        prompt = prefix + _tokens(source, SHARED_SUFFIX_TOKENS)
        waves.append((PromptRequest(prompt, _HIT_DECODE_TOKENS),))
    return tuple(waves)


def hits_by_length(result: EngineResult) -> dict[int, tuple[int, ...]]:
    """The hits that ``hit_waves`` got: for each length those of its 1st, 2nd, 3rd sending."""
    hits = iter([request.num_cached_tokens for request in result.requests])
    return {length: _taken(hits, NUM_SENDINGS) for length in RESENT_LENGTHS}


def shared_prefix_hits(result: EngineResult) -> tuple[int, ...]:
    """The hits that the prompts with the shared prefix got, in the order they were sent."""
    return tuple(request.num_cached_tokens for request in result.requests[-NUM_SHARING:])


def equality_waves(seed: int) -> tuple[Wave, ...]:
    """Requests that share prefixes, overlap in time and push each other out of a tight pool.

    In each of five rounds, four requests decode over block boundaries while others come and go:
    two that part somewhere in a common prefix, then one of them again and one of them continued.
    Then follow bursts that want the pool for one kind alone: long prompts, almost only attention
    blocks, and short ones, almost only states. Each takes memory that last held the other kind.
    """
    source = random.Random(seed)
    prefix = _tokens(source, source.randrange(260, 420))
    prefixes = itertools.cycle((prefix, prefix[:200] + _tokens(source, 200)))
    waves: list[Wave] = []
    for _ in range(NUM_DECODING // 4):
        waves.append(_decoding_wave(source, next(prefixes)))
        for _ in range(3):
            waves += [_burst(source, LONG, 5), _burst(source, SHORT, 11)]
    return tuple(waves)


def _decoding_wave(source: random.Random, prefix: tuple[int, ...]) -> Wave:
    early = [prefix, prefix[: source.randrange(64, len(prefix))]]
    early = [kept + _tokens(source, source.randrange(20, 200)) for kept in early]
    late = [early[0], early[1] + _tokens(source, source.randrange(20, 200))]
    passing = _burst(source, SHORT, 3) + _burst(source, LONG, 1)
    return _decoding(source, early) + passing + _decoding(source, late)


def _decoding(source: random.Random, prompts: Sequence[tuple[int, ...]]) -> Wave:
    return tuple(_request(source, prompt, source.randrange(70, 100)) for prompt in prompts)


def _burst(source: random.Random, lengths: range, count: int) -> Wave:
    """Prompts of their own that decode just long enough to hold their memory together."""
    prompts = [_tokens(source, source.choice(lengths)) for _ in range(count)]
    return tuple(_request(source, prompt, _BURST_DECODE_TOKENS) for prompt in prompts)


def _request(source: random.Random, prompt: tuple[int, ...], max_tokens: int) -> PromptRequest:
    """Never leaves a tail of one token behind a chunk.

    The engine would take that for a decode step, which rounds differently from prefill.
    """
    if len(prompt) % CHUNK_TOKENS == 1:
        prompt += _tokens(source, 1)
    return PromptRequest(prompt, max_tokens)


def _tokens(source: random.Random, count: int) -> tuple[int, ...]:
    return tuple(source.randrange(_FIRST_ORDINARY_TOKEN, VOCAB_SIZE) for _ in range(count))


def _taken(hits: Iterator[int], count: int) -> tuple[int, ...]:
    return tuple(next(hits) for _ in range(count))
