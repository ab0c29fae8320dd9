"""``kvquarry simulate`` prints what was found, and says what to change where it cannot."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kvquarry_core.ids import ClassId
from kvquarry_server.cli import main
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.planning.sizes import memory
from kvquarry_tools.simulation.progress import progress
from kvquarry_tools.simulation.replay.occupancy import measure
from kvquarry_tools.simulation.settings import CHURN_BASELINES, Baseline, SimulationSettings
from kvquarry_tools.simulation.setups import make_pool
from tests.tools.simulation.traces import CONVERSATION

MODEL = ("--model", "Qwen3.6-35B-A3B", "--memory", "20GiB")
TRACE = ("--trace", str(CONVERSATION), "--first", "60", "--block-size", "512")
PNG = b"\x89PNG"


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:  # noqa: ANN401
    assert main(["simulate", *MODEL, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_everything_that_was_asked_about_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *MODEL, *TRACE]) == 0
    out = capsys.readouterr().out
    for line in (
        "Qwen3.6-35B-A3B, 20.0 GiB, blocks of 512 tokens",
        "placement affinity, eviction lru, relocation off, retention boundaries",
        "token hit rate",
        "prefill tokens saved",
        "evicted blocks, attention",
        "evicted blocks, states",
        "preemptions",
        "utilisation at first shortage",
        "CPU time",
        "internal",
        "external",
    ):
        assert line in out


def test_scripts_get_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, *TRACE)
    assert found["num_requests"] == 60
    assert found["token_hit_rate"] == found["hit_tokens"] / found["prompt_tokens"] > 0
    assert found["samples"]
    assert found["eviction"] == "lru"


def test_infinite_memory_finds_most_and_belady_no_less_than_a_pool(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rates = {
        baseline: figures(
            capsys, *TRACE, "--no-decode", "--retention", "dense", "--baseline", baseline
        )["token_hit_rate"]
        for baseline in ("infinite", "uniform", "static")
    }
    belady = figures(capsys, *TRACE, "--baseline", "belady")
    rates["belady"] = belady["token_hit_rate"]
    assert rates["infinite"] >= rates["belady"] >= max(rates["uniform"], rates["static"])


def test_retention_and_eviction_change_what_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    sparse = figures(capsys, *TRACE, "--no-decode", "--retention", "last")
    dense = figures(capsys, *TRACE, "--no-decode", "--retention", "every-512")
    assert sparse["checkpoints"] != dense["checkpoints"]
    saved = figures(capsys, *TRACE, "--eviction", "saved-work", "--placement", "first-fit")
    assert (saved["eviction"], saved["placement"]) == ("saved-work", "first-fit")


def test_what_stands_for_work_that_nobody_knows_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    falcon = ("--model", "Falcon-H1-3B", "--memory", "20GiB", *TRACE, "--eviction", "saved-work")
    assert main(["simulate", *falcon]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert main(["simulate", *falcon, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["work"], answer["work_hit_rate"]) == (None, None)
    (note,) = answer["notes"]
    assert note.startswith("what the model computes is not known, so tokens stand for work: ")
    assert "intermediate_size is missing" in note
    assert told.endswith(f" Note: {note}.")
    assert figures(capsys, *TRACE)["notes"] == []


def test_what_belady_saves_is_told_in_work_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Hits are heads of prompts, whose tokens meet few others."""
    found = figures(capsys, *TRACE, "--baseline", "belady")
    assert 0 < found["work_hit_rate"] < found["token_hit_rate"]


def test_churn_prints_a_line_for_each_seed_and_their_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", *MODEL, "--churn", "--steps", "40", "--seeds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "refused" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["affinity", "1"],
        ["affinity", "2"],
        ["affinity", "mean"],
    ]
    found = figures(capsys, "--churn", "--steps", "40", "--seeds", "1", "--relocation", "evacuate")
    assert found[0]["pool"] == "affinity+evacuate"
    assert len(found[0]["utilisation"]) == 4
    assert found[0]["num_refused"] == 0


def test_every_figure_ends_in_one_column_and_what_moved_is_told_by_request_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = ("--trace", str(CONVERSATION), "--first", "300", "--block-size", "64")
    policies = ("--relocation", "evacuate", "--retention", "every-4096")
    few = (*MODEL[:2], "--memory", "4GiB", *trace, *policies)
    assert main(["simulate", *few]) == 0
    lines = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert {len(line) for line in lines} == {50}
    told = {line[:34].strip(): line[34:].strip() for line in lines}
    assert "tokens between checkpoints" in told
    assert main(["simulate", *few, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["moved_bytes"] > 0
    per_request = found["moved_bytes"] / found["num_requests"]
    assert (told["moved"], told["per request"]) == (
        memory(found["moved_bytes"]),
        memory(per_request),
    )


def test_a_picture_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "pool.png"
    figures(capsys, *TRACE, "--plot", str(picture))
    assert picture.read_bytes().startswith(PNG)


def test_without_matplotlib_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    picture = tmp_path / "pool.png"
    said = complaint(capsys, *MODEL, *TRACE, "--plot", str(picture))
    assert "kvquarry[tools]" in said
    assert not picture.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*MODEL, "--trace", "no-such-file"), "cannot read the trace no-such-file"),
        ((*MODEL, *TRACE, "--eviction", "belady"), "there is no eviction 'belady'; there are lru"),
        ((*MODEL, *TRACE, "--placement", "best"), "there is no placement 'best'"),
        ((*MODEL, *TRACE, "--retention", "some"), "no retention 'some'; there are dense"),
        (
            (*MODEL, *TRACE, "--retention", "every-0"),
            "no retention 'every-0': N in every-N is a whole number from 1",
        ),
        (
            (*MODEL, *TRACE, "--retention", "engine"),
            "simulate has no engine; choose one of dense, boundaries, last, every-N",
        ),
        ((*MODEL, *TRACE, "--first", "0"), "--first 0 is too small"),
        ((*MODEL, "--churn", "--seeds", "0"), "--seeds 0 is too small"),
        ((*MODEL, "--churn", "--steps", "3"), "--steps 3 is too small; give a number from 4 on"),
        (
            (*MODEL, "--churn", "--baseline", "belady"),
            "--baseline belady is for --trace; with --churn there are uniform, static, static-even",
        ),
        (("--model", "Qwen9", "--memory", "1GiB", *TRACE), "no model is known as 'Qwen9'"),
        (
            ("--model", "Qwen3.6-35B-A3B", "--memory=-1GiB", *TRACE),
            "'-1GiB' is no amount of memory",
        ),
        (("--model", "Qwen3.6-35B-A3B", "--memory", "-1GiB", *TRACE), "'-1GiB' is no amount"),
        (
            ("--model", "Gemma-3-4B", "--memory", "9GiB", *TRACE, "--baseline", "belady"),
            "--baseline belady cannot do with groups of sliding_window",
        ),
        (
            ("--model", "Llama-3.1-8B", "--memory", "9GiB", *TRACE, "--baseline", "static"),
            "this --model has no states; give one that has both",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert said in complaint(capsys, *arguments)


@pytest.mark.parametrize("what", [TRACE, ("--churn",)], ids=["trace", "churn"])
def test_memory_that_holds_no_pool_is_answered_as_the_flag_takes_it(
    capsys: pytest.CaptureFixture[str], what: tuple[str, ...]
) -> None:
    said = complaint(capsys, *MODEL[:2], "--memory", "20", *what)
    advised = re.search(r"--memory 20 B is too small .*; give at least (\d+)MiB$", said.strip())
    assert advised, said
    least = int(advised[1])
    below = complaint(capsys, *MODEL[:2], "--memory", f"{least - 1}MiB", *what)
    assert f"give at least {least}MiB" in below
    main(["simulate", *MODEL[:2], "--memory", f"{least}MiB", *what])
    assert "for a pool" not in capsys.readouterr().err


@pytest.mark.parametrize("mode", [(), ("--no-decode",), ("--baseline", "uniform")])
def test_memory_that_holds_no_request_is_refused_with_what_would_do(
    capsys: pytest.CaptureFixture[str], mode: tuple[str, ...]
) -> None:
    trace = ("--trace", str(CONVERSATION), "--first", "20", *mode)
    said = complaint(capsys, *MODEL[:2], "--memory", "100MiB", *trace)
    assert "--memory is too small: it holds none of the 20 requests" in said
    advised = re.search(r"the smallest needs ([\d.]+ MiB), the largest ([\d.]+ GiB)", said)
    assert advised, said
    for amount, num_refused in zip(advised.groups(), (19, 0), strict=True):
        assert main(["simulate", *MODEL[:2], "--memory", amount, *trace, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["num_refused"] <= num_refused


def test_requests_that_begin_and_can_never_end_are_refused_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In 124 MiB a prompt fits beside its running state, and its checkpoint does not."""
    trace = ("--trace", str(CONVERSATION), "--first", "20")
    said = complaint(capsys, *MODEL[:2], "--memory", "124MiB", *trace)
    assert "--memory is too small: it holds none of the 20 requests" in said


def test_null_blocks_are_in_no_share_of_the_pool() -> None:
    """Before its first request the pool holds nothing: one of six slabs is of null blocks."""
    served = find_model("Qwen3.6-35B-A3B").served(Serving())
    pool = make_pool(SimulationSettings(served, 130 << 20), [])
    (part,) = pool.parts
    assert part.plan.num_reserved_blocks * part.plan.block_bytes(ClassId(0)) > 1 << 20
    occupancy = measure(pool.parts, 0, now_s=0)
    assert (occupancy.content, occupancy.internal, occupancy.cached) == (0, 0, 0)
    assert 0 <= occupancy.external < 0.2


@pytest.mark.parametrize(
    ("retention", "interval_tokens"),
    [("every-100", 400), ("every-64", 64), ("every-5", 80), ("dense", 16), ("last", None)],
)
def test_how_far_apart_checkpoints_really_are_is_told(
    capsys: pytest.CaptureFixture[str], retention: str, interval_tokens: int | None
) -> None:
    trace = (*MODEL, "--trace", str(CONVERSATION), "--first", "5", "--retention", retention)
    assert main(["simulate", *trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["interval_tokens"] == interval_tokens
    assert main(["simulate", *trace]) == 0
    told = re.search(r"tokens between checkpoints +(\d+)", capsys.readouterr().out)
    assert (int(told[1]) if told else None) == interval_tokens


def test_memory_without_end_has_no_shares(capsys: pytest.CaptureFixture[str]) -> None:
    infinite = (*TRACE, "--baseline", "infinite")
    found = figures(capsys, *infinite)
    assert (found["samples"], found["first_shortage"]) == ([], None)
    assert main(["simulate", *MODEL, *infinite]) == 0
    out = capsys.readouterr().out
    assert "pool over time" not in out
    assert "utilisation" not in out


def test_columns_stand_under_their_heads_however_late_a_trace_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    request = {"timestamp": 10**13, "input_length": 9, "output_length": 3, "hash_ids": [1]}
    path = tmp_path / "late.jsonl"
    path.write_text(json.dumps(request))
    assert main(["simulate", *MODEL, "--trace", str(path)]) == 0
    head, line = capsys.readouterr().out.splitlines()[-2:]
    assert len(head) == len(line)
    assert line.startswith("10,000,000,000 to 10,000,000,000 s ")


CHURN = ("--churn", "--steps", "40", "--seeds", "1")
PLACEMENT = ("--placement", "first-fit")
EVICTION = ("--eviction", "lru")
RELOCATION = ("--relocation", "off")
RETENTION = ("--retention", "boundaries")
PLOT = ("--plot", "never.png")


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        *(((*CHURN, *flag), (flag[0], "--churn")) for flag in (EVICTION, RETENTION, PLOT)),
        ((*CHURN, "--no-decode"), ("--no-decode", "--churn")),
        ((*CHURN, "--first", "9"), ("--first", "--churn")),
        *(
            ((*CHURN, *flag, "--baseline", baseline), (flag[0], f"--baseline {baseline}"))
            for flag in (PLACEMENT, RELOCATION)
            for baseline in CHURN_BASELINES
        ),
        ((*TRACE, "--steps", "24000"), ("--steps", "--trace")),
        ((*TRACE, "--seeds", "4"), ("--seeds", "--trace")),
        ((*TRACE, "--seeds", "0"), ("--seeds", "--trace")),
        *(
            ((*TRACE, *flag, "--baseline", one.value), (flag[0], f"--baseline {one.value}"))
            for flag in (PLACEMENT, EVICTION, RELOCATION)
            for one in Baseline
        ),
        ((*TRACE, *PLOT, "--baseline", "infinite"), ("--plot", "--baseline infinite")),
        ((*TRACE, *PLOT, "--baseline", "belady"), ("--plot", "--baseline belady")),
        ((*TRACE, *RETENTION, "--baseline", "belady"), ("--retention", "--baseline belady")),
    ],
)
def test_a_flag_without_effect_is_refused_though_it_says_the_default(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], flags: tuple[str, str]
) -> None:
    said = complaint(capsys, *MODEL, *arguments)
    assert f"{flags[0]} has no effect with {flags[1]}; leave one of them out" in said


@pytest.mark.parametrize("baseline", CHURN_BASELINES)
def test_churn_runs_on_every_baseline(capsys: pytest.CaptureFixture[str], baseline: str) -> None:
    assert figures(capsys, *CHURN, "--baseline", baseline)[0]["pool"] == baseline


def test_a_baseline_of_churn_is_none_of_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, *MODEL, *TRACE, "--baseline", "oracle")
    assert "--baseline oracle is for --churn; with --trace there are uniform, static" in said


def test_a_trace_or_churn_is_needed_and_not_both(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--churn", *TRACE)):
        with pytest.raises(SystemExit) as stopped:
            main(["simulate", *MODEL, *arguments])
        assert stopped.value.code == 2
    capsys.readouterr()


def test_progress_is_shown_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress(10, "requests") as on_done:
        on_done(5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(10, "requests") as on_done:
        for num_done in range(11):
            on_done(num_done)
    captured = capsys.readouterr()
    assert "requests" in captured.err
    assert captured.out == ""
