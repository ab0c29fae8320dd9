"""What tests of pins have in common."""

from kvquarry_core.integrity import check_integrity
from kvquarry_core.messages import (
    Pinned,
    PinRefusal,
    PinRequest,
)
from kvquarry_core.pool import Pool
from tests.core.small_pools import (
    ATTENTION,
    cache,
    hashes,
    one_class,
)


def pin(pool: Pool, name: str, prompt: str, ttl_s: float = 10.0) -> Pinned | PinRefusal:
    """Ask for a pin."""
    answer = pool.pin(PinRequest(name, hashes(prompt), ttl_s))
    check_integrity(pool)
    return answer


def pinned(answer: Pinned | PinRefusal) -> Pinned:
    """It was granted."""
    assert isinstance(answer, Pinned), answer
    return answer


def refusal(answer: Pinned | PinRefusal) -> PinRefusal:
    """It was refused."""
    assert isinstance(answer, PinRefusal), answer
    return answer


def is_cached(pool: Pool, prompt: str) -> bool:
    """Whether a prompt's last block is findable."""
    return pool.store.index.find(ATTENTION, hashes(prompt)[-1]) is not None


def attention_pool(cap: float = 1.0, num_blocks: int = 6) -> Pool:
    """With "ab" cached, and older than "xy"."""
    pool = Pool(one_class(num_blocks), pin_cap=cap)
    cache(pool, 1, "ab")
    cache(pool, 2, "xy")
    return pool
