"""Short words for the pools and prompts of the tests."""

from kvquarry_core.ids import BlockHash, BlockId, GroupId, Handle, KindId
from kvquarry_core.messages import Admission, AdmitRequest, Grant, Refusal
from kvquarry_core.plan import GroupKind, GroupSpec, Plan, make_plan
from kvquarry_core.pool import Pool

ATTENTION = KindId(0)
STATES = KindId(1)


def attention(page_bytes: int, block_tokens: int = 1, num_layers: int = 1) -> GroupSpec:
    """A group of full attention."""
    return GroupSpec(GroupKind.FULL_ATTENTION, block_tokens, page_bytes, num_layers)


def states(page_bytes: int, block_tokens: int = 1, num_speculative_blocks: int = 0) -> GroupSpec:
    """A group of recurrent states."""
    return GroupSpec(GroupKind.RECURRENT_STATE, block_tokens, page_bytes, 1, num_speculative_blocks)


def window(
    page_bytes: int, window_tokens: int, block_tokens: int = 1, *, is_draft: bool = False
) -> GroupSpec:
    """A group of attention over a sliding window."""
    kind = GroupKind.SLIDING_WINDOW
    return _windowed(kind, page_bytes, window_tokens, block_tokens, is_draft=is_draft)


def chunks(
    page_bytes: int, window_tokens: int, block_tokens: int = 1, *, is_draft: bool = False
) -> GroupSpec:
    """A group of attention within chunks."""
    kind = GroupKind.CHUNKED_LOCAL
    return _windowed(kind, page_bytes, window_tokens, block_tokens, is_draft=is_draft)


def _windowed(
    kind: GroupKind, page_bytes: int, window_tokens: int, block_tokens: int, *, is_draft: bool
) -> GroupSpec:
    return GroupSpec(
        kind, block_tokens, page_bytes, 1, window_tokens=window_tokens, is_draft=is_draft
    )


def draft(page_bytes: int, block_tokens: int = 1) -> GroupSpec:
    """A group of a draft model's full attention."""
    return GroupSpec(GroupKind.FULL_ATTENTION, block_tokens, page_bytes, 1, is_draft=True)


def cross(page_bytes: int, block_tokens: int = 1) -> GroupSpec:
    """A group of attention to an encoder's tokens."""
    return GroupSpec(GroupKind.CROSS_ATTENTION, block_tokens, page_bytes, 1)


def scratch(page_bytes: int, block_tokens: int = 1) -> GroupSpec:
    """A group that requests work in."""
    return GroupSpec(GroupKind.SCRATCH, block_tokens, page_bytes, 1)


def one_class(num_blocks: int, num_groups: int = 1) -> Plan:
    """A pool of attention alone with `num_blocks` blocks to hand out."""
    return make_plan([attention(16)] * num_groups, (num_blocks + 1) * 16)


def two_classes(num_slabs: int, num_state_groups: int = 1) -> Plan:
    """Slabs of three attention blocks or one state; the null blocks take one slab more."""
    groups = [attention(16), *[states(48)] * num_state_groups]
    return make_plan(groups, (num_slabs + 1) * 48)


def hybrid() -> Pool:
    """Attention, and states in two groups; room enough."""
    return Pool(two_classes(num_slabs=20, num_state_groups=2))


def hashes(prompt: str) -> list[BlockHash]:
    """Hashes of a prompt, one a letter; chained, since each names all letters before it."""
    return [BlockHash(prompt[:end].encode()) for end in range(1, len(prompt) + 1)]


def request(handle: int, prompt: str, *, must_fit_tokens: int = 0) -> AdmitRequest:
    """A request for a prompt of one token a letter, all of it in one chunk."""
    return AdmitRequest(
        handle=Handle(handle),
        hashes=hashes(prompt),
        num_tokens=len(prompt),
        max_hit_tokens=len(prompt) - 1,
        max_grant_tokens=len(prompt),
        must_fit_tokens=must_fit_tokens,
    )


def admit(pool: Pool, handle: int, prompt: str) -> Admission:
    """Admit a request that is sure to fit."""
    answer = pool.admit(request(handle, prompt))
    assert isinstance(answer, Admission), answer
    return answer


def grow(pool: Pool, handle: int, wanted: list[int]) -> Grant:
    """Grow a request that is sure to fit."""
    answer = pool.grow(Handle(handle), wanted)
    assert isinstance(answer, Grant), answer
    return answer


def refused(answer: object) -> Refusal:
    """The refusal that an answer has to be."""
    assert isinstance(answer, Refusal), answer
    return answer


def take_all(pool: Pool, handle: int) -> list[list[BlockId]]:
    """Spend all that was granted; what was spent, by group."""
    granted = pool.requests[Handle(handle)].granted
    return [
        pool.take(Handle(handle), GroupId(group), len(blocks))
        for group, blocks in enumerate(list(granted))
    ]


def commit_all(pool: Pool, handle: int, prompt: str) -> None:
    """Commit all attention blocks of a prompt that have no hash, and the state at its end."""
    held = pool.requests[Handle(handle)].held
    for index, members in enumerate(pool.plan.kinds):
        kind, spec = KindId(index), pool.plan.spec_of_kind(KindId(index))
        names = hashes(prompt)
        if spec.kind is GroupKind.RECURRENT_STATE:
            names = names[-1:]
        rows = zip(*(held[group][-len(names) :] for group in members), strict=True)
        for block_hash, row in zip(names, rows, strict=True):
            if pool.store.contents.commitment(pool.plan.class_of_kind(kind), row[0]) is None:
                pool.commit(Handle(handle), kind, block_hash, row)


def run(pool: Pool, handle: int, prompt: str) -> Admission:
    """A request's whole prefill: admitted, spent, committed; it goes on holding its blocks."""
    admission = admit(pool, handle, prompt)
    take_all(pool, handle)
    commit_all(pool, handle, prompt)
    return admission


def cache(pool: Pool, handle: int, prompt: str) -> None:
    """Run a request to its end, so that its content is cached for the next step."""
    run(pool, handle, prompt)
    pool.free(Handle(handle))
    pool.begin_step()
