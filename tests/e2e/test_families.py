"""More families of models: outputs are stock vLLM's at its own best settings, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvquarry_vllm.demo.environment import child_environment
from kvquarry_vllm.demo.job import EngineResult
from kvquarry_vllm.demo.preflight import this_processor
from tests.e2e.families.catalogue import FAMILIES
from tests.e2e.families.drafted import parting_waves
from tests.e2e.families.run import FAULT
from tests.e2e.harness import ROOT, differing, differing_beyond_rounding

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

TIMEOUT_S = 1500.0
#: vLLM has no prefix caching across attention.
NEVER_HIT = ("whisper",)
#: Its accounting is Llama's, and the CPU build turns its prefix caching off: not for every day.
AT_NIGHT = ("deepseek", "llama-drafted")
#: The last requests of families with drafts.
NUM_PARTING = sum(map(len, parting_waves()))
#: The CPU build rounds otherwise behind a hit or a chunk than within one, stock against stock
#: in a smaller pool: bits are equal where hits are, which a tight pool cannot promise for long.
#: Gemma-4's 32 bits tell that from a fault, LFM2's 16 do not.
ROUNDED_BY_HITS = ("gemma4",)
NOT_FOR_LONG = ("lfm2",)

Compare = Callable[[EngineResult, EngineResult], list[int]]


@dataclass(frozen=True)
class Answers:
    """One engine's."""

    result: EngineResult
    num_class_changes: int
    drafts: list[list[list[int]]]

    @property
    def parting_drafts(self) -> list[list[list[int]]]:
        """What was drafted for prompts that part where a block ends, after each step."""
        return self.drafts[-NUM_PARTING:]

    @property
    def parting_hits(self) -> list[int]:
        """The tokens that these prompts hit."""
        return [request.num_cached_tokens for request in self.result.requests[-NUM_PARTING:]]


class Run:
    """What one process told of all families."""

    def __init__(self, lines: list[str], log: str) -> None:
        self._told: dict[tuple[str, str], Answers | str] = {}
        for told in map(json.loads, lines):
            self._told[told["family"], told["side"]] = told.get("error") or Answers(
                EngineResult.from_dict(told["result"]), told["num_class_changes"], told["drafts"]
            )
        self._log = log

    def answers(self, family: str, side: str) -> Answers:
        told = self._told.get((family, side))
        assert told is not None, f"the process ended before {family}, {side}:\n{self._log}"
        assert isinstance(told, Answers), told
        return told


def run_families(folder: Path, num_waves: int, names: Iterable[str]) -> Run:
    """One process runs the families one after the other: stock first, then kvquarry."""
    processor = this_processor()
    if not processor.runs_hybrids:
        pytest.skip(processor.verdict)
    log = folder / "engines.log"
    module = "tests.e2e.families.run"
    command = [sys.executable, "-m", module, str(folder), str(num_waves), *names]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    env = child_environment({"PYTHONPATH": paths})
    with log.open("wb") as errors:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, env=env, timeout=TIMEOUT_S, check=False
        )
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
    return Run(done.stdout.decode().splitlines(), tail)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Decoding over block boundaries, then long prompts and short ones that want the pool."""
    return run_families(tmp_path_factory.mktemp("families"), 4, EVERY_DAY)


EVERY_DAY = [name for name in FAMILIES if name not in AT_NIGHT]
ALL = pytest.mark.parametrize("family", EVERY_DAY)


@ALL
def test_a_familys_outputs_equal_stock_while_slabs_change_size_class(run: Run, family: str) -> None:
    stock, ours = run.answers(family, "stock"), run.answers(family, "ours")
    assert ours.result.served_by_kvquarry
    assert not stock.result.served_by_kvquarry
    assert differing(stock.result, ours.result) == []
    assert len(stock.result.requests) >= 15
    if FAMILIES[family].num_sizes > 1:
        assert ours.num_class_changes >= 2


@ALL
def test_each_side_runs_at_the_block_size_it_was_given(run: Run, family: str) -> None:
    """Stock's is what its pages need: had it been raised again, its hits would not be its best."""
    given = FAMILIES[family]
    groups = run.answers(family, "ours").result.groups
    assert {group.block_size_tokens for group in groups} == {given.block_tokens}
    groups = run.answers(family, "stock").result.groups
    assert min(group.block_size_tokens for group in groups) == given.stock_block_tokens


@ALL
def test_prompts_hit_no_less_than_with_stocks_blocks(run: Run, family: str) -> None:
    hits = [
        sum(request.num_cached_tokens for request in run.answers(family, side).result.requests)
        for side in ("stock", "ours")
    ]
    assert hits[0] <= hits[1]
    assert (hits[1] == 0) == (family in NEVER_HIT)


@pytest.mark.parametrize(
    ("family", "compare"), [("granite", differing), ("gemma4", differing_beyond_rounding)]
)
def test_a_planted_fault_shows_in_a_familys_outputs(
    run: Run, family: str, compare: Compare
) -> None:
    """The negative control: without zeroing, attention reads what the pool was filled with."""
    stock, faulty = run.answers(family, "stock"), run.answers(family, FAULT)
    assert faulty.result.served_by_kvquarry
    assert compare(stock.result, faulty.result) != []


def assert_drafts_are_stocks(stock: Answers, ours: Answers) -> None:
    """Drafts show what is wrong in the cache of the layer that makes them; outputs never do.

    Compared are short prompts: within long ones the CPU build rounds by how they are cut into
    chunks, stock against stock.
    """
    assert ours.parting_drafts == stock.parting_drafts
    num_tried = sum(map(len, ours.parting_drafts))
    num_said = sum(len(request.tokens) for request in ours.result.requests[-NUM_PARTING:])
    assert 0 < num_tried < 0.8 * num_said, "too few drafts are accepted to tell anything"


def test_drafts_are_stocks_after_hits_that_end_a_block_earlier(run: Run) -> None:
    stock, ours = run.answers("gemma3-eagle", "stock"), run.answers("gemma3-eagle", "ours")
    assert_drafts_are_stocks(stock, ours)
    assert ours.parting_hits == [0, 0, 0, 0, 0, 64, 64, 64] * 2


def test_without_the_margin_drafts_are_made_from_anothers_token(run: Run) -> None:
    """The negative control; the target finds out, so that outputs are right nonetheless."""
    stock, faulty = run.answers("gemma3-eagle", "stock"), run.answers("gemma3-eagle", FAULT)
    assert faulty.parting_hits == [0, 64, 64, 64, 0, 128, 128, 128] * 2
    assert faulty.parting_drafts != stock.parting_drafts
    assert differing(stock.result, faulty.result) == []


@pytest.mark.nightly
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in NOT_FOR_LONG])
def test_a_longer_run_equals_stock(tmp_path: Path, family: str) -> None:
    """Two rounds of the workload, some 110 requests."""
    run = run_families(tmp_path, 14, [family])
    stock, ours = run.answers(family, "stock"), run.answers(family, "ours")
    assert ours.result.served_by_kvquarry
    compare = differing_beyond_rounding if family in ROUNDED_BY_HITS else differing
    assert compare(stock.result, ours.result) == []
    if FAMILIES[family].drafts_by:
        assert_drafts_are_stocks(stock, ours)
