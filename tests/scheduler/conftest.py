"""Fixtures of several files."""

from __future__ import annotations

import pytest

from kvquarry_core.reserve import DecodeReserve


@pytest.fixture
def no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are admitted into the last block, so that they preempt each other."""
    monkeypatch.setattr(DecodeReserve, "blocks", _nothing)


def _nothing(reserve: DecodeReserve, *_: int) -> list[int]:
    return [0] * len(reserve._plan.classes)
