"""Fixtures of several files."""

from __future__ import annotations

import pytest

from kvquarry_core.reserve import DecodeReserve


@pytest.fixture
def no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are admitted into the last block, so that they preempt each other."""
    blocks_of = DecodeReserve.blocks

    def nothing(reserve: DecodeReserve, *_: int) -> list[int]:
        return blocks_of(reserve, 0, 0)

    monkeypatch.setattr(DecodeReserve, "blocks", nothing)
