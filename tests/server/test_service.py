"""Leases lapse without anybody asking."""

import asyncio

import pytest

from kvquarry_server.registry import Policy, Registry
from kvquarry_server.service import drop_lapsed_pools
from tests.server.doubles import FakeClock, open_request


class EnoughSlept(Exception):
    """Ends a loop that has no end."""


def test_lapsed_pools_are_looked_for_again_and_again() -> None:
    clock = FakeClock()
    registry = Registry(Policy(attach_s=10), clock)
    registry.open(open_request())
    seen: list[tuple[float, int]] = []

    async def sleep(seconds: float) -> None:
        seen.append((clock(), len(registry.attachments)))
        clock.advance(seconds)
        if len(seen) > 100:
            raise EnoughSlept

    with pytest.raises(EnoughSlept):
        asyncio.run(drop_lapsed_pools(registry, sleep))
    gone_at = next(now for now, num_pools in seen if num_pools == 0)
    assert 1010 <= gone_at <= 1011


def test_a_round_that_comes_late_drops_nobody() -> None:
    """Something held the loop for longer than the lease: nobody could be heard meanwhile."""
    clock = FakeClock()
    registry = Registry(Policy(attach_s=10), clock)
    registry.open(open_request())
    num_pools: list[int] = []

    async def sleep(seconds: float) -> None:
        num_pools.append(len(registry.attachments))
        clock.advance(20 if len(num_pools) == 1 else seconds)
        if len(num_pools) > 3:
            raise EnoughSlept

    with pytest.raises(EnoughSlept):
        asyncio.run(drop_lapsed_pools(registry, sleep))
    assert num_pools == [1, 1, 0, 0]
