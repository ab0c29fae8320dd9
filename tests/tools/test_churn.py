"""A pool under churn: sums that hold at every step, and pools in their right order."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from statistics import fmean, median

import pytest

from kvquarry_core.ids import Handle
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.policies import PolicyNames
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.simulation.churn.baselines import Taken, taken_by_blocks, taken_by_content
from kvquarry_tools.simulation.churn.engine import (
    MOST_REFUSED_IN_A_ROW,
    ChurnEngine,
    NothingFits,
)
from kvquarry_tools.simulation.churn.pools import CorePool, Need
from kvquarry_tools.simulation.churn.requests import Demand, Lengths, Traffic
from kvquarry_tools.simulation.churn.runs import (
    CORE,
    LEAST_STEPS,
    ChurnSettings,
    make_pool,
    run_churn,
)
from kvquarry_tools.simulation.settings import CHURN_BASELINES

QWEN = find_model("Qwen3.6-35B-A3B").served(Serving())


def settings(pool: str = CORE, *, gib: int = 20, num_steps: int = 1_500) -> ChurnSettings:
    return ChurnSettings(QWEN, gib << 30, pool, PolicyNames(), num_steps, seed=1)


def fourth_quarter(pool: str) -> float:
    return run_churn(settings(pool)).utilisation[-1]


def test_lengths_are_distributed_as_asked_for() -> None:
    drawn = sorted(demand.num_tokens for demand in islice(Traffic().requests(1), 20_000))
    assert median(drawn) == pytest.approx(900, rel=0.05)
    assert drawn[19_000] == pytest.approx(8_000, rel=0.08)
    outputs = sorted(demand.num_output_tokens for demand in islice(Traffic().requests(1), 20_000))
    assert median(outputs) == pytest.approx(200, rel=0.05)
    assert outputs[19_000] == pytest.approx(1_200, rel=0.08)


def test_equal_seeds_give_equal_runs_and_others_do_not() -> None:
    def drawn(seed: int) -> list[Demand]:
        return list(islice(Traffic().requests(seed), 50))

    assert drawn(3) == drawn(3) != drawn(4)


def test_pools_come_in_the_order_that_theory_says() -> None:
    core = fourth_quarter(CORE)
    assert fourth_quarter("static") < fourth_quarter("uniform") < core
    assert core < fourth_quarter("oracle-blocks") < fourth_quarter("oracle") < 1


def test_what_blocks_take_beyond_their_content_is_padding_and_missing_layers() -> None:
    """13 layers of states in three groups: one has a layer less, which takes a page even so."""
    tokens = GroupSpec(GroupKind.FULL_ATTENTION, 16, 1024, 5)
    groups = (tokens, *(GroupSpec(GroupKind.RECURRENT_STATE, 16, 4096, n) for n in (5, 4, 4)))
    plan = make_plan(groups, 1 << 20)
    assert [size_class.stride_bytes for size_class in plan.classes] == [1024, 4096]
    assert taken_by_content(groups) == Taken(5 * 1024, 13 * 4096)
    assert taken_by_blocks(plan) == Taken(5 * 1024, 15 * 4096)


class CountedPool:
    """So many tokens, and every request noted token by token."""

    need = Need(bytes_per_token=1, bytes_per_request=1_000)
    block_tokens = 16
    moved_bytes = 0

    def __init__(self, num_blocks: int) -> None:
        self.num_free = num_blocks
        self.num_blocks: dict[Handle, int] = {}

    def begin_step(self) -> None:
        pass

    def admit(self, handle: Handle, num_tokens: int) -> bool:
        wanted = -(-num_tokens // self.block_tokens)
        if wanted > self.num_free:
            return False
        self.num_free -= wanted
        self.num_blocks[handle] = wanted
        return True

    def grow(self, handle: Handle) -> bool:
        if not self.num_free:
            return False
        self.num_free -= 1
        self.num_blocks[handle] += 1
        return True

    def free(self, handle: Handle) -> None:
        self.num_free += self.num_blocks.pop(handle)


def test_needed_bytes_are_those_of_the_tokens_and_states_of_running_requests() -> None:
    pool = CountedPool(400)
    lengths = Traffic(Lengths(60, 300), Lengths(30, 100))
    engine = ChurnEngine(pool, lengths.requests(5))
    for _ in range(2_000):
        occupancy = engine.step()
        assert len(pool.num_blocks) == occupancy.num_running
        num_tokens = occupancy.needed_bytes - 1_000 * occupancy.num_running
        held = sum(pool.num_blocks.values())
        # Every request's last block holds 1 to 16 tokens.
        assert 16 * (held - occupancy.num_running) < num_tokens <= 16 * held
    assert engine.totals.finished > 100
    assert engine.totals.preempted > 10


def test_a_preempted_request_goes_on_where_it_was() -> None:
    def two() -> Iterator[Demand]:
        yield Demand(16, 40)
        yield Demand(16, 40)
        while True:
            yield Demand(50, 1)

    # Four blocks: both fit at first, and one has to go when both have grown to two.
    pool = CountedPool(4)
    engine = ChurnEngine(pool, two())
    num_steps = 0
    while engine.totals.finished < 2:
        engine.step()
        num_steps += 1
    assert engine.totals.preempted == 1
    # Forty steps for the first; the other begins anew after it with what is left.
    assert 41 < num_steps < 81


def test_a_request_that_never_fits_does_not_hold_up_the_queue() -> None:
    def one_too_many() -> Iterator[Demand]:
        yield Demand(16, 4)
        yield Demand(1_000, 4)
        while True:
            yield Demand(16, 4)

    engine = ChurnEngine(CountedPool(4), one_too_many())
    for _ in range(40):
        engine.step()
    assert engine.totals.refused == 1
    assert engine.totals.finished > 10


def test_requests_that_never_fit_end_the_run_and_not_the_patience() -> None:
    engine = ChurnEngine(CountedPool(4), iter(lambda: Demand(1_000, 4), None))
    with pytest.raises(NothingFits):
        engine.step()
    assert engine.totals.refused == MOST_REFUSED_IN_A_ROW


def test_requests_refused_for_good_are_among_the_figures() -> None:
    """130 MiB are six slabs of some 1,000 tokens or one state each; a request has three states."""
    small = ChurnSettings(QWEN, 130 << 20, CORE, PolicyNames(), 2_000, seed=1)
    engine = ChurnEngine(make_pool(small), Traffic().requests(1))
    for _ in range(2_000):
        engine.step()
    assert run_churn(small).num_refused == engine.totals.refused > 0


@pytest.mark.parametrize("pool", [CORE, *CHURN_BASELINES])
def test_memory_that_holds_no_request_is_refused_with_what_would_do(pool: str) -> None:
    # The oracle, which has no slabs, holds three states of 20.5 MiB in this and hardly a token.
    too_small = ChurnSettings(QWEN, 62 << 20, pool, PolicyNames(), 50, 1)
    with pytest.raises(InvalidOption, match="1,000 requests in a row do not fit") as refused:
        run_churn(too_small)
    advised = re.search(r"give (\d+)\.0 MiB or more", str(refused.value))
    assert advised, refused.value
    enough_bytes = int(advised[1]) << 20
    assert make_pool(replace(too_small, memory_bytes=enough_bytes)).admit(Handle(0), 8_000)
    assert not make_pool(replace(too_small, memory_bytes=enough_bytes * 9 // 10)).admit(
        Handle(0), 8_000
    )


def test_a_run_has_a_step_in_each_quarter() -> None:
    assert len(run_churn(settings(num_steps=LEAST_STEPS)).utilisation) == LEAST_STEPS
    with pytest.raises(InvalidOption, match="--steps 3 is too small; give a number from 4 on"):
        run_churn(settings(num_steps=LEAST_STEPS - 1))


def test_the_core_is_sound_after_churn() -> None:
    pool = make_pool(settings(gib=2))
    assert isinstance(pool, CorePool)
    engine = ChurnEngine(pool, Traffic().requests(2))
    for _ in range(400):
        engine.step()
    assert engine.totals.preempted > 0
    check_integrity(pool.pool)
    for handle in list(pool.pool.requests):
        pool.free(handle)
    check_integrity(pool.pool)


@pytest.mark.parametrize(
    ("model", "pool", "complaint"),
    [
        ("Qwen3.6-35B-A3B", "infinite", "no pool 'infinite'"),
        ("Gemma-3-4B", CORE, "--churn cannot do with groups of sliding_window"),
        ("Llama-3.1-8B", "static", "--baseline static .* this --model has no states"),
        ("Llama-3.1-8B", "static-even", "--baseline static-even .* this --model has no states"),
    ],
)
def test_what_cannot_churn_is_refused(model: str, pool: str, complaint: str) -> None:
    served = find_model(model).served(Serving())
    with pytest.raises(InvalidOption, match=complaint):
        make_pool(ChurnSettings(served, 20 << 30, pool, PolicyNames(), 10, 1))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_utilisation_in_the_fourth_quarter_reaches_the_goals() -> None:
    """The long run: fragmentation keeps growing, so a short one tells little."""

    def fourth(pool: str, relocation: str) -> tuple[float, float]:
        names = PolicyNames(relocation=relocation)
        runs = [
            run_churn(ChurnSettings(QWEN, 20 << 30, pool, names, 24_000, seed))
            for seed in (1, 2, 3, 4)
        ]
        moved = fmean(run.moved_bytes_per_finished for run in runs)
        return fmean(run.utilisation[-1] for run in runs), moved

    uniform, _ = fourth("uniform", "off")
    assert uniform == pytest.approx(0.908, abs=0.002)
    placed, _ = fourth(CORE, "off")
    assert placed >= 0.94
    moved, moved_bytes = fourth(CORE, "evacuate")
    assert moved >= 0.985
    assert 0 < moved_bytes <= 4 << 20
