"""What a step costs on the wire: one exchange for who is admitted, none for who decodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.cases import ATTENTION, LOOPS, MIXED, PLAIN
from tests.scheduler.geometry import Geometry
from tests.scheduler.quarry import QuarryPools
from tests.scheduler.scenes import Scene, scheduled, words
from tests.scheduler.simulation import Loop, Simulation

CACHES = pytest.mark.parametrize("geometry", [ATTENTION, MIXED], ids=["attention", "mixed"])
BOTH_LOOPS = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)


class Meter:
    """Exchanges since the last look."""

    def __init__(self, scene: Scene) -> None:
        self._ledger: Any = scene.simulation.manager.shadow.ledger
        self._last = self._ledger.num_exchanges

    def read(self) -> int:
        """Exchanges since the last call."""
        now = self._ledger.num_exchanges
        since, self._last = now - self._last, now
        return since


def scene_of(geometry: Geometry, loop: Loop, folder: Path) -> Scene:
    return Scene(Simulation(QuarryPools(geometry, 600_000), loop, PLAIN, folder))


@BOTH_LOOPS
@CACHES
def test_those_admitted_in_a_step_make_one_exchange(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(geometry, loop, tmp_path)
    scene.finish("donor", words(20, seed=9))
    meter = Meter(scene)
    for number in range(4):
        scene.send(f"r{number}", words(20 + number, seed=number), max_tokens=100)
    assert len(scheduled(scene.step())) == 4
    assert scene.calls.looked_up == [f"r{number}" for number in range(4)]
    assert meter.read() == 1
    scene.drain()


@BOTH_LOOPS
@CACHES
def test_those_who_share_a_text_that_is_not_cached_make_one_exchange_each(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(geometry, loop, tmp_path)
    scene.finish("donor", words(20, seed=9))
    meter = Meter(scene)
    for number in range(3):
        scene.send(f"r{number}", words(40, seed=1) + words(10, seed=number), max_tokens=100)
    scene.step()
    scene.step()
    assert meter.read() >= 3
    scene.drain()


@BOTH_LOOPS
@CACHES
def test_an_admission_with_a_hit_makes_one_exchange(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(geometry, loop, tmp_path)
    scene.finish("donor", words(40, seed=1))
    meter = Meter(scene)
    scene.send("twin", words(40, seed=1))
    assert scheduled(scene.step()) == {"twin": 8}
    assert meter.read() == 1
    scene.drain()


@BOTH_LOOPS
@CACHES
def test_decoding_within_a_block_makes_no_exchange(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(geometry, loop, tmp_path)
    for number in range(4):
        scene.send(f"r{number}", words(17, seed=number), max_tokens=100)
    for _ in range(4):
        scene.step()
    meter = Meter(scene)
    for _ in range(8):
        assert len(scheduled(scene.step())) == 4
    assert meter.read() == 0
    scene.drain()


@BOTH_LOOPS
@CACHES
def test_a_finished_request_makes_no_exchange(
    geometry: Geometry, loop: Loop, tmp_path: Path
) -> None:
    scene = scene_of(geometry, loop, tmp_path)
    scene.start("runner", words(17, seed=1), max_tokens=6)
    meter = Meter(scene)
    scene.drain()
    assert meter.read() == 0
