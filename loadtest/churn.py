"""How full a pool stays after thousands of steps at its limit.

Run from the repository's root: ``python -m loadtest.churn``. See docs/simulate.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from kvquarry_core.placement import PLACEMENTS
from kvquarry_core.policies import PolicyNames
from kvquarry_core.relocation import RELOCATIONS
from kvquarry_tools.errors import InvalidInput
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.simulation.churn.report import HEAD, ChurnRun, churn_lines, churn_plain
from kvquarry_tools.simulation.churn.runs import CORE, ChurnSettings, run_churn
from kvquarry_tools.simulation.settings import CHURN_BASELINES

#: Placements of the core alone, the default with each relocation, and what to compare with.
_POOLS = (
    *PLACEMENTS,
    *(f"{PolicyNames().placement}+{name}" for name in RELOCATIONS if name != "off"),
    *CHURN_BASELINES,
)
#: States from a fiftieth of the pool's usual share per request to several times as much, pages of
#: one head and of many, latent attention, and states below a page.
TEN_MODELS = (
    "Qwen3.6-35B-A3B",
    "Qwen3.6-27B",
    "Qwen3-Next-80B-A3B",
    "Nemotron-3-Nano-30B-A3B",
    "Nemotron-Nano-9B-v2",
    "Granite-4.0-H-Tiny",
    "Falcon-H1-7B",
    "Zamba2",
    "LFM2-2.6B",
    "Kimi-Linear-48B-A3B",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        _run_all(arguments)
    except InvalidInput as error:
        parser.error(str(error))


def _run_all(arguments: argparse.Namespace) -> None:
    models = TEN_MODELS if arguments.ten_models else (arguments.model,)
    documents = []
    with ProcessPoolExecutor(arguments.jobs) as workers:
        for model in models:
            _say(arguments, f"{model}, {arguments.gib} GiB, {arguments.steps:,} steps\n{HEAD}")
            for label in arguments.pools:
                runs = list(workers.map(_run, _settings(arguments, model, label)))
                documents += churn_plain(runs)
                _say(arguments, churn_lines(runs))
    if arguments.json:
        print(json.dumps({"benchmark": "churn", "results": documents}, indent=1))


def _say(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.json:
        print(text, flush=True)


def _settings(arguments: argparse.Namespace, model: str, label: str) -> list[ChurnSettings]:
    served = find_model(model).served(Serving(arguments.block_size))
    return [
        ChurnSettings(served, arguments.gib << 30, *_pool(label), arguments.steps, seed)
        for seed in arguments.seeds
    ]


def _run(settings: ChurnSettings) -> ChurnRun:
    start_s = time.process_time()
    figures = run_churn(settings)
    return ChurnRun(settings, figures, time.process_time() - start_s)


def _pool(label: str) -> tuple[str, PolicyNames]:
    """A baseline, or "placement" or "placement+relocation" of the core."""
    if label in CHURN_BASELINES:
        return label, PolicyNames()
    placement, _, relocation = label.partition("+")
    return CORE, PolicyNames(placement=placement, relocation=relocation or "off")


def _names(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.churn", description=__doc__)
    parser.add_argument("--model", default=TEN_MODELS[0], help="a known name or a config.json")
    parser.add_argument("--ten-models", action="store_true", help="ten models, one after another")
    parser.add_argument("--pools", type=_names, default=list(_POOLS), help="several with commas")
    parser.add_argument("--seeds", type=_numbers, default=[1, 2, 3, 4], help="several with commas")
    parser.add_argument("--steps", type=int, default=24_000)
    parser.add_argument("--gib", type=int, default=20, help="GiB of the pool")
    parser.add_argument("--block-size", type=int, default=16, help="tokens per block")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="for scripts")
    return parser


if __name__ == "__main__":
    main()
