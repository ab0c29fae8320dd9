"""What the plug-in opens its pool with."""

from __future__ import annotations

import pytest
from vllm.config import KVEventsConfig

from kvquarry_vllm.opening import publishes_events


@pytest.mark.parametrize(
    ("config", "is_wanted"),
    [
        (None, False),
        (KVEventsConfig(enable_kv_cache_events=False), False),
        (KVEventsConfig(enable_kv_cache_events=True, publisher="null"), True),
    ],
    ids=["nothing", "off", "on"],
)
def test_evictions_are_heard_where_routers_are_told_of_them(
    config: KVEventsConfig | None, *, is_wanted: bool
) -> None:
    assert publishes_events(config) is is_wanted
