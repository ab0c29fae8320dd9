"""``kvquarry plan``: readable, for scripts too, and clear about what it cannot do."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvquarry_server.cli import main
from kvquarry_tools.models import known_models

DOCS = Path(__file__).parents[2] / "docs/plan.md"
COLUMNS = 80
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
}


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints when all is well."""
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def plan_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(plan(capsys, *arguments, "--json"))
    return answer


def documented() -> list[tuple[str, str]]:
    """Each command of the page with the output it shows."""
    blocks = DOCS.read_text().split("```console\n$ ")[1:]
    shown = [block.split("\n```")[0].partition("\n") for block in blocks]
    return [(command, output) for command, _, output in shown]


@pytest.mark.parametrize(("command", "output"), documented(), ids=[c for c, _ in documented()])
def test_the_page_shows_what_is_printed(
    command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "kvquarry"
    assert main(arguments) == 0
    assert output == capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize("name", known_models())
def test_every_known_model_has_a_plan_that_fits_a_narrow_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wished = ("--memory", "640GiB", "--max-num-seqs", "100000")
    fits = main(["plan", "--model", name, *wished]) == 0
    text = capsys.readouterr().out
    assert ("--max-num-seqs 100,000 fits" in text) == fits
    assert max(len(line) for line in text.splitlines()) <= COLUMNS
    assert text.splitlines()[0].startswith(name)


@pytest.mark.parametrize("name", known_models())
def test_scripts_get_the_same_numbers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = plan(capsys, "--model", name, "--memory", "20GiB")
    answer = plan_json(capsys, "--model", name, "--memory", "20GiB")
    ours, stock = (answer[pool]["capacity"] for pool in ("kvquarry", "stock_vllm"))
    for mine, theirs in zip(ours["requests"], stock["requests"], strict=True):
        line = f"requests of {mine['tokens']:,} tokens at once"
        shown = next(row for row in text.splitlines() if row.startswith(line))
        assert shown.removeprefix(line).split() == [
            f"{mine['requests']:,}",
            f"{theirs['requests']:,}",
        ]
    assert answer["memory_bytes"] == 20 * 2**30
    assert answer["max_num_seqs"] is None


@pytest.mark.parametrize("name", ["Zamba2", "Qwen3.6-35B-A3B"])
def test_padding_has_one_base_for_both_pools(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In both, a block is what a state takes of it, and padding."""
    usual = ("--model", name, "--memory", "20GiB", "--block-size", "64")
    answer = plan_json(capsys, *usual)
    stock = answer["stock_vllm"]
    (states,) = (one for one in answer["kvquarry"]["classes"] if one["holds"] == "states")
    content_bytes = answer["checkpoint_bytes"] / states["num_groups"]
    for block_bytes, padding in (
        (states["block_bytes"], states["padding"]),
        (stock["block_bytes"], stock["state_padding"]),
    ):
        assert block_bytes * (1 - padding) == pytest.approx(content_bytes)
    shown = f"  {stock['state_padding']:.2%} of a block of states is padding\n"
    assert shown in plan(capsys, *usual)


def test_changing_a_field_of_the_configuration_changes_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    answers = []
    for change in ({}, {"num_key_value_heads": 4}, {"num_hidden_layers": 16}):
        file.write_text(json.dumps(CONFIG | change))
        answers.append(plan(capsys, "--model", str(file), "--memory", "20GiB"))
    assert len(set(answers)) == 3


@pytest.mark.parametrize(
    "flags",
    [
        ["--block-size", "64"],
        ["--tp", "2"],
        ["--kv-dtype", "fp8"],
        ["--state-dtype", "bfloat16"],
        ["--spec-tokens", "5"],
        ["--memory", "21GiB"],
    ],
    ids=" ".join,
)
def test_every_flag_changes_the_answer(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ("--model", "Qwen3.6-27B", "--memory", "20GiB")
    changed = plan_json(capsys, *usual, *flags)
    assert changed["kvquarry"] != plan_json(capsys, *usual)["kvquarry"]


def test_the_worked_line_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan(capsys, "--model", "Qwen3.6-35B-A3B", "--memory", "20GiB")
    for step in (
        "attention: 2,048 / 16 = 128 blocks of 320.0 KiB = 40.0 MiB",
        "states, 3 groups: 1 state of 20.6 MiB = 61.9 MiB",
        "20.0 GiB / 101.9 MiB = 201 by bytes, 200 in whole slabs",
        "kept free for 182 that run: 728 blocks of 320.0 KiB = 227.5 MiB",
        "kept free for 182 that run: 72 blocks of 20.6 MiB = 1.45 GiB",
        "with that, 183 are admitted",
        "5 blocks of 20.6 MiB each; (992 - 1) / 5 = 198",
    ):
        assert f"    {step}\n" in text


def test_too_many_sequences_are_answered_with_the_largest_number_and_what_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wished = ("--model", "Nemotron-3-Nano-30B-A3B", "--memory", "8GiB", "--max-num-seqs")
    assert main(["plan", *wished, "1024", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)["max_num_seqs"]
    assert (answer["wished"], answer["fits"]) == (1024, False)
    assert main(["plan", *wished, "1024"]) == 1
    text, complaint = capsys.readouterr()
    assert complaint.startswith("kvquarry: --max-num-seqs 1024 does not fit")
    assert f"{answer['largest']} requests of one token run at once" in text
    assert f"\n  --max-num-seqs {answer['largest']}\n" in text
    assert f"\n  --memory {answer['memory_bytes'] >> 20}MiB\n" in text
    assert "\n  --state-dtype bfloat16" in text
    assert "fits" in plan(capsys, *wished, str(answer["largest"]))


@pytest.mark.parametrize(
    ("wished", "verdict"), [("500", "run at once"), ("1024", "run at once, not enough by itself")]
)
def test_a_change_that_does_not_suffice_by_itself_says_so(
    wished: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ("--model", "Qwen3.6-35B-A3B", "--memory", "20GiB", "--max-num-seqs")
    assert main(["plan", *usual, wished]) == 1
    assert f"--state-dtype bfloat16, with which 546 {verdict}\n" in capsys.readouterr().out


def test_what_reaches_back_a_limited_way_has_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name, known_as, other in (
        ("Llama-4-Scout", "chunks", "windows"),
        ("Gemma-4-26B-A4B", "windows", "chunks"),
    ):
        text = plan(capsys, "--model", name, "--memory", "20GiB")
        assert text.count(known_as) >= 4
        assert other not in text


@pytest.mark.parametrize(("block_tokens", "named"), [(17, "17 tokens"), (1, "1 token")])
def test_blocks_that_no_kernel_takes_are_noted(
    block_tokens: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ("--model", "Qwen3-8B", "--memory", "20GiB", "--block-size")
    text = plan(capsys, *usual, str(block_tokens))
    assert f"blocks of {named}\n" in text
    assert f"an engine refuses blocks of {named}." in " ".join(text.split())
    assert "refuses" not in plan(capsys, *usual, "48")


@pytest.mark.parametrize(
    ("block_tokens", "memory", "padding", "num_notes"),
    [("64", "2GiB", "12.66%", 1), ("64", "20GiB", "0.19%", 0), ("16", "2GiB", "1.36%", 0)],
)
def test_padding_beyond_the_bound_is_noted_with_its_reason(
    block_tokens: str,
    memory: str,
    padding: str,
    num_notes: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = plan(capsys, "--model", "Zamba2", "--memory", memory, "--block-size", block_tokens)
    note = (
        f"Note: blocks of states are padded by {padding}, more than 12.5%: of the slabs that keep "
        "to it none leaves 24 in this memory"
    )
    assert f" {padding} " in text
    assert " ".join(text.split()).count(note) == text.count("more than 12.5%") == num_notes


IMPOSSIBLE = [
    (["--model", "Qwen3.6-28B"], r"did you mean Qwen3.6-27B"),
    (["--model", "nowhere/config.json"], "nowhere/config.json cannot be read: No such file"),
    (["--model", "made-up.json"], "the cache of MadeUpForCausalLM is not known here"),
    (["--model", "./Qwen3-8B"], "Qwen3-8B cannot be read: No such file"),
    (["--memory", "much"], "'much' is no amount of memory"),
    (["--memory", "20 parsecs"], "write it as in 20GiB"),
    (["--memory", "0"], "no memory at all"),
    (["--memory", "-1GiB"], "'-1GiB' is no amount of memory; write it as in 20GiB or 512MiB"),
    (["--memory", "9999TiB"], "more than any worker has"),
    (["--model", "flat.json"], "flat.json has layers that cannot be"),
    (["--memory", "1MiB"], "no request of one token fits; give at least --memory"),
    (["--memory", "9" * 400], "more than any worker has"),
    (["--spec-tokens", "4000"], "or fewer --spec-tokens"),
    (["--block-size", "0"], "--block-size 0 is too small"),
    (["--tp", "5"], "--tp 5"),
    (["--kv-dtype", "int3"], "choose one of: auto, bfloat16"),
    (["--state-dtype", "int3"], "choose one of: auto, float32"),
    (["--spec-tokens", "-1"], "--spec-tokens -1 is negative"),
    (["--max-num-seqs", "0"], "--max-num-seqs 0 is too small"),
    (["--max-num-seqs", "1000001"], "more than any engine runs; give 1,000,000 at most"),
    (["--max-num-seqs", "9" * 24], "more than any engine runs; give 1,000,000 at most"),
]


@pytest.mark.parametrize(("flags", "message"), IMPOSSIBLE, ids=[" ".join(f) for f, _ in IMPOSSIBLE])
def test_what_cannot_be_is_answered_with_what_to_change(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made-up.json").write_text(json.dumps(CONFIG | {"architectures": ["MadeUpForCausalLM"]}))
    Path("flat.json").write_text(json.dumps(CONFIG | {"hidden_size": 1}))
    assert main(["plan", "--model", "Qwen3.6-27B", "--memory", "20GiB", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kvquarry: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_planning_needs_nothing_that_only_the_service_needs() -> None:
    """Whoever plans has installed neither the extra of the service nor torch nor vLLM."""
    absent = ["grpc_health", "grpc_reflection", "prometheus_client", "redis", "torch", "vllm"]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({absent}));"
        "from kvquarry_server.cli import main;"
        "sys.exit(main(['plan', '--model', 'Qwen3-8B', '--memory', '1GiB']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Qwen3-8B")


def test_a_number_that_is_none_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["plan", "--model", "Qwen3.6-27B", "--memory", "20GiB", "--tp", "two"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("usage: kvquarry plan")
