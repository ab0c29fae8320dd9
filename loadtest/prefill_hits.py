"""Prompts sent again and again: ``python -m loadtest.prefill_hits``.

The experiment of vllm-project/vllm#46251. A prefix of 104 tokens is repeated 5, 7, ... 33 times and
followed by a question. Each prompt is sent once alone and then many times at once; what is measured
is how much of it those find in the prefix cache, and how long all of them take together. Sending
decodes one token, so that time is prefill.

The model's states are as large beside its pages as those of Qwen3.6-35B-A3B, so that stock vLLM
raises ``--block-size 16`` to 1,056. No other ``--block-size`` gives stock a smaller block. Rounding
the states to bfloat16, half the precision that the checkpoint asks for, gives 544: a column of its
own, as the best that stock can be set to. ``prefix_match_unit`` is left out: on such a model its
outputs are wrong. The CPU's attention kernel takes blocks of a multiple of 32, so that kvquarry's
smallest block is 32 here where it is 16 on a GPU.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE, write_checkpoint
from kvquarry_vllm.demo.engine import run_engine
from kvquarry_vllm.demo.job import EngineJob, PromptRequest, Wave
from kvquarry_vllm.demo.jobs import MIB
from loadtest.benchmarks.tables import say
from loadtest.real_engine import (
    ENGINE_TIMEOUT_S,
    STOCK,
    STOCK_AGAIN,
    Arm,
    alternated,
    common_options,
    markdown_table,
    parser_of,
    workplace,
)
from loadtest.real_engine_checkpoint import large_states
from loadtest.real_engine_plot import Panel, svg_of
from loadtest.real_engine_sendings import (
    Run,
    Runs,
    Sendings,
    by_prompt,
    least_hit_tokens,
    median_later_s,
    run_of,
    share_as_stock,
    speedup,
)

PREFIX_TOKENS: Final = 104
MULTIPLES: Final = tuple(range(5, 34, 2))
QUICK_MULTIPLES: Final = (5, 11)
#: What stock is given, and what it makes of it.
STOCK_BLOCK_TOKENS: Final = 16
RAISED_BLOCK_TOKENS: Final = 1056

ARMS: Final = (
    Arm(STOCK, None, STOCK_BLOCK_TOKENS),
    Arm("stock, bf16 states", None, STOCK_BLOCK_TOKENS, {"mamba_ssm_cache_dtype": "bfloat16"}),
    Arm("kvquarry 32", "unix:", 32),
    Arm("kvquarry 64", "unix:", 64),
    Arm(STOCK_AGAIN, None, STOCK_BLOCK_TOKENS),
)
QUICK_ARMS: Final = (ARMS[0], ARMS[2])

_NUM_RUNS: Final = 5
_NUM_SENDINGS: Final = 24
_QUICK_NUM_SENDINGS: Final = 4
_QUESTION_TOKENS: Final = 7
_FIRST_ORDINARY_TOKEN: Final = 3


def main() -> None:
    """Measure, print, and draw if asked to."""
    parser = parser_of(__doc__, _NUM_RUNS)
    parser.add_argument("--plot", type=Path, help="write an SVG file too")
    args = parser.parse_args()
    if args.quick:
        runs = measure_arms(QUICK_ARMS, 1, prompts_of(QUICK_MULTIPLES), _QUICK_NUM_SENDINGS)
    else:
        runs = measure_arms(ARMS, args.runs, prompts_of(MULTIPLES), _NUM_SENDINGS)
    if args.plot is not None:
        args.plot.write_text(plot(runs))
    say(tables(runs), as_json=to_dict(runs) if args.json else None)


def prompts_of(multiples: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """By multiple. The first token differs, so that no prompt finds anything of another's."""
    source = random.Random(1)
    prefix, question = _tokens(source, PREFIX_TOKENS), _tokens(source, _QUESTION_TOKENS)
    return {
        multiple: (_FIRST_ORDINARY_TOKEN + multiple, *prefix * multiple, *question)
        for multiple in multiples
    }


def measure_arms(
    arms: Sequence[Arm], num_runs: int, prompts: Mapping[int, tuple[int, ...]], num_later: int
) -> dict[str, list[Run]]:
    """What each arm measured in each run."""
    with workplace() as (folder, service):
        model = write_checkpoint(large_states(), folder / "model")
        waves: list[Wave] = [(PromptRequest(_tokens(random.Random(2), 600), 1),)]  # warms up
        for prompt in prompts.values():
            waves += [(PromptRequest(prompt, 1),), (PromptRequest(prompt, 1),) * num_later]

        def measure(arm: Arm) -> Run:
            job = EngineJob(str(model), _options(arm), tuple(waves), arm.env(service))
            clock = WaveClock()
            log = folder / "engine.log"
            result = run_engine(job, log=log, timeout_s=ENGINE_TIMEOUT_S, on_event=clock.note)
            assert result.served_by_kvquarry == (arm.target is not None), result.manager
            return run_of(prompts, num_later, result, clock.waves_s[1:])

        return alternated(arms, num_runs, measure)


class WaveClock:
    """Notes how long each wave took, from the end of what came before it."""

    def __init__(self) -> None:
        self.waves_s: list[float] = []
        self._last = time.monotonic()

    def note(self, event: Mapping[str, Any]) -> None:
        """An event of the engine."""
        now = time.monotonic()
        if event["event"] == "wave":
            self.waves_s.append(now - self._last)
        self._last = now


def to_dict(runs: Runs) -> dict[str, Any]:
    """Every figure of every run, and the speed-ups."""
    return {
        "num_runs": len(runs[STOCK]),
        "arms": {name: [asdict(run) for run in of_arm] for name, of_arm in runs.items()},
        "speedup_later": {name: asdict(speedup(runs, name, "later_s")) for name in runs},
        "speedup_total": {name: asdict(speedup(runs, name, "total_s")) for name in runs},
        "outputs_as_first_of_stock": {name: share_as_stock(runs, name) for name in runs},
    }


def tables(runs: Runs) -> str:
    """Hits and times by prompt, then the sums."""
    return "\n\n".join(
        [
            "Tokens found by each later sending",
            _by_prompt(runs, lambda sendings: f"{least_hit_tokens(sendings):,}"),
            f"All {runs[STOCK][0].sendings[0].num_later} later sendings together, s",
            _by_prompt(runs, lambda sendings: f"{median_later_s(sendings):.3f}"),
            "All prompts",
            _sums(runs),
        ]
    )


def plot(runs: Runs) -> str:
    """Hits and times over the prompt's length, as SVG."""
    names = [name for name in runs if name != STOCK_AGAIN]
    hits = {name: _points(runs[name], least_hit_tokens) for name in names}
    times = {name: _points(runs[name], median_later_s) for name in names}
    num_later = runs[STOCK][0].sendings[0].num_later
    panels = [
        Panel("Tokens found in the prefix cache", "tokens of the prompt", hits),
        Panel(f"Seconds for {num_later} sendings", "tokens of the prompt", times),
    ]
    return svg_of(panels)


def _points(
    of_arm: Sequence[Run], figure: Callable[[Sequence[Sendings]], float]
) -> list[tuple[float, float]]:
    return [(each[0].prompt_tokens, figure(each)) for each in by_prompt(of_arm)]


def _by_prompt(runs: Runs, show: Callable[[Sequence[Sendings]], str]) -> str:
    header, rows = ["multiple", "prompt", *runs], []
    for index, first in enumerate(runs[STOCK][0].sendings):
        cells = (show(by_prompt(of_arm)[index]) for of_arm in runs.values())
        rows.append([str(first.multiple), f"{first.prompt_tokens:,}", *cells])
    return markdown_table(header, rows)


def _sums(runs: Runs) -> str:
    rows = [
        ["block size", *(f"{of_arm[0].block_tokens:,}" for of_arm in runs.values())],
        ["later sendings, s", *(_median_s(of_arm, "later_s") for of_arm in runs.values())],
        ["stock over it", *(str(speedup(runs, name, "later_s")) for name in runs)],
        ["with the first, s", *(_median_s(of_arm, "total_s") for of_arm in runs.values())],
        ["stock over it", *(str(speedup(runs, name, "total_s")) for name in runs)],
        ["outputs as stock's first", *(f"{share_as_stock(runs, name):.1%}" for name in runs)],
    ]
    return markdown_table(["", *runs], rows)


def _median_s(of_arm: Sequence[Run], figure: str) -> str:
    return f"{statistics.median(getattr(run, figure) for run in of_arm):.2f}"


def _options(arm: Arm) -> dict[str, object]:
    """Chunks end at multiples of the block: the budget is one of 1,056, 64 and 32."""
    return common_options(
        arm,
        max_model_len=4096,
        max_num_seqs=16,
        max_num_batched_tokens=4 * RAISED_BLOCK_TOKENS,
        kv_cache_memory_bytes=256 * MIB,
    )


def _tokens(source: random.Random, count: int) -> tuple[int, ...]:
    return tuple(source.randrange(_FIRST_ORDINARY_TOKEN, VOCAB_SIZE) for _ in range(count))


if __name__ == "__main__":
    main()
