"""``kvquarry simulate``: what a pool would do for a model, before anything is installed."""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

from kvquarry_core.policies import PolicyNames
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.planning.command import served_model
from kvquarry_tools.planning.sizes import parse_memory
from kvquarry_tools.simulation.churn.report import ChurnRun, churn_plain, churn_text
from kvquarry_tools.simulation.churn.runs import (
    CORE,
    ChurnSettings,
    check_steps,
    run_churn,
)
from kvquarry_tools.simulation.flags import DEFAULT_RETENTION, DEFAULT_SEEDS, DEFAULT_STEPS
from kvquarry_tools.simulation.plot import draw
from kvquarry_tools.simulation.progress import progress
from kvquarry_tools.simulation.report import Report, as_plain, as_text
from kvquarry_tools.simulation.runs import simulate
from kvquarry_tools.simulation.settings import (
    CHURN_BASELINES,
    Baseline,
    Replay,
    SimulationSettings,
)
from kvquarry_tools.simulation.traces import read_trace
from kvquarry_tools.simulation.unheard import check_heard


def run_simulate(arguments: argparse.Namespace) -> str:
    """What the command prints.

    Raises:
        InvalidInput: Something asked for cannot be; the message says what to change.
    """
    check_heard(arguments)
    return _churn(arguments) if arguments.churn else _replay(arguments)


def _replay(arguments: argparse.Namespace) -> str:
    settings = SimulationSettings(
        served=served_model(arguments),
        memory_bytes=parse_memory(arguments.memory),
        replay=Replay.PROMPTS if arguments.no_decode else Replay.ENGINE,
        policies=_policy_names(arguments),
        retention=arguments.retention or DEFAULT_RETENTION,
        baseline=_baseline(arguments.baseline),
    )
    trace = read_trace(arguments.trace)
    if arguments.first is not None:
        trace = trace[: _at_least_one(arguments.first, "--first")]
    start_s = time.process_time()
    with progress(len(trace), "requests") as on_done:
        figures = simulate(settings, trace, on_done=on_done)
    report = Report(settings, figures, time.process_time() - start_s)
    if arguments.plot is not None:
        draw(figures.samples, settings.served.model.name, arguments.plot)
    return json.dumps(as_plain(report), indent=2) if arguments.json else as_text(report)


def _churn(arguments: argparse.Namespace) -> str:
    policies = _policy_names(arguments)
    pool = _churned(arguments.baseline)
    served, memory_bytes = served_model(arguments), parse_memory(arguments.memory)
    num_steps = DEFAULT_STEPS if arguments.steps is None else arguments.steps
    check_steps(num_steps)
    num_seeds = DEFAULT_SEEDS
    if arguments.seeds is not None:
        num_seeds = _at_least_one(arguments.seeds, "--seeds")
    runs = []
    with progress(num_steps * num_seeds, "steps") as on_done:
        for seed in range(1, num_seeds + 1):
            settings = ChurnSettings(served, memory_bytes, pool, policies, num_steps, seed)
            start_s, num_before = time.process_time(), (seed - 1) * num_steps
            figures = run_churn(settings, partial(_on_step, on_done, num_before))
            runs.append(ChurnRun(settings, figures, time.process_time() - start_s))
    return json.dumps(churn_plain(runs), indent=2) if arguments.json else churn_text(runs)


def _policy_names(arguments: argparse.Namespace) -> PolicyNames:
    named = PolicyNames(
        arguments.placement or "", arguments.eviction or "", arguments.relocation or ""
    )
    return named.or_else(PolicyNames())


def _baseline(name: str | None) -> Baseline | None:
    if name is None:
        return None
    known = [one.value for one in Baseline]
    if name not in known:
        raise InvalidOption(
            f"--baseline {name} is for --churn; with --trace there are {', '.join(known)}"
        )
    return Baseline(name)


def _churned(name: str | None) -> str:
    """The pool that is churned."""
    if name is not None and name not in CHURN_BASELINES:
        raise InvalidOption(
            f"--baseline {name} is for --trace; with --churn there are {', '.join(CHURN_BASELINES)}"
        )
    return name or CORE


def _on_step(on_done: Callable[[int], None], num_before: int, step: int) -> None:
    on_done(num_before + step + 1)


def _at_least_one(number: int, option: str) -> int:
    if number < 1:
        raise InvalidOption(f"{option} {number} is too small; give a number from 1 on")
    return number
