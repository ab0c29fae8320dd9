"""The calls a scheduler makes for one request, in vLLM's order."""

from vllm.v1.request import Request, RequestStatus

from loadtest.benchmarks.sides import CHUNK_TOKENS, Side


class DoesNotFit(Exception):
    """The pool is too small for the scenario: its times would be those of refusals."""


def admit(side: Side, request: Request) -> None:
    """Look a waiting request up and give it the blocks of its whole prompt, chunk by chunk."""
    blocks, hit_tokens, _ = side.manager.get_computed_blocks(request)
    allocate_first(side, request, hit_tokens, blocks)
    for end in chunk_ends(side, request.num_computed_tokens, request.num_prompt_tokens):
        advance(side, request, end)


def allocate_first(side: Side, request: Request, hit_tokens: int, blocks: object) -> None:
    """The first chunk of a request that was looked up."""
    end = next(iter(chunk_ends(side, hit_tokens, request.num_prompt_tokens)))
    granted = side.manager.allocate_slots(
        request,
        end - hit_tokens,
        hit_tokens,
        blocks,  # type: ignore[arg-type]  # each manager gets back what it returned
        full_sequence_must_fit=True,
    )
    if granted is None:
        raise DoesNotFit(f"{side.name}: no blocks for {request.num_prompt_tokens} tokens")
    request.num_computed_tokens = end
    request.status = RequestStatus.RUNNING


def advance(side: Side, request: Request, end: int) -> None:
    """The next chunk of a running request."""
    if side.manager.allocate_slots(request, end - request.num_computed_tokens) is None:
        raise DoesNotFit(f"{side.name}: no blocks for token {end}")
    request.num_computed_tokens = end


def chunk_ends(side: Side, start: int, num_tokens: int) -> list[int]:
    """Where the chunks of a prompt end.

    Where there are states, chunks end on block boundaries, and one at the last boundary before
    the prompt's end, whose state the next request with this prompt may hit.
    """
    ends, block_tokens = [], side.block_tokens
    last_boundary = (num_tokens - 1) // block_tokens * block_tokens
    while start < num_tokens:
        end = min(start + CHUNK_TOKENS, num_tokens)
        if side.has_states and end < num_tokens:
            end -= end % block_tokens
        if side.has_states and start < last_boundary < end:
            end = last_boundary
        ends.append(end)
        start = end
    return ends
