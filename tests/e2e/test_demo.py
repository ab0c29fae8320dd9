"""The parts of the demo that need no engine."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tokenizers import Tokenizer

from kvquarry_vllm.demo.__main__ import main
from kvquarry_vllm.demo.checkpoint import ARCHITECTURES, write_checkpoint
from kvquarry_vllm.demo.environment import child_environment
from kvquarry_vllm.demo.job import Candidate, EngineJob, RequestResult
from kvquarry_vllm.demo.jobs import EQUALITY_BLOCK_TOKENS, equality_job, stock_env
from kvquarry_vllm.demo.preflight import read_processor
from kvquarry_vllm.demo.report import Equality, Hits, Report, show
from kvquarry_vllm.demo.workload import CHUNK_TOKENS, NUM_DECODING, equality_waves

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu {}\n\nprocessor\t: 1\n"
NAN = float("nan")


@pytest.mark.parametrize("flags", ["avx512_bf16", "amx_tile amx_bf16", "avx512_bf16 amx_tile"])
def test_a_processor_with_bf16_units_runs_hybrids(flags: str) -> None:
    processor = read_processor(CPUINFO.format(flags))
    assert processor.name == "Some CPU"
    assert processor.runs_hybrids


@pytest.mark.parametrize("flags", ["", "avx512f avx512_vnni", "amx_tile"])
def test_a_processor_without_them_is_told_in_one_line_what_is_shown_instead(flags: str) -> None:
    processor = read_processor(CPUINFO.format(flags))
    assert not processor.runs_hybrids
    assert "Llama" in processor.verdict
    assert "\n" not in processor.verdict


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_checkpoint_depends_on_its_seed_alone(name: str, tmp_path: Path) -> None:
    first, again, other = (
        write_checkpoint(ARCHITECTURES[name](), tmp_path / folder, seed) / "model.safetensors"
        for folder, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != other.read_bytes()


def test_every_decoding_request_crosses_a_block_boundary_and_no_tail_is_one_token() -> None:
    requests = [request for wave in equality_waves(seed=1) for request in wave]
    decoding = [r for r in requests if r.max_tokens > EQUALITY_BLOCK_TOKENS]
    assert len(decoding) == NUM_DECODING
    assert all(len(request.prompt) % CHUNK_TOKENS != 1 for request in requests)


def test_a_job_survives_its_way_to_the_engines_process(tmp_path: Path) -> None:
    model = write_checkpoint(ARCHITECTURES["llama"](), tmp_path)
    job = equality_job(model, stock_env(), equality_waves(seed=1))
    assert EngineJob.from_json(job.to_json()) == job


def test_a_job_without_block_size_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size"):
        EngineJob("model", {}, ())


def test_children_inherit_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUARRY_TARGET", "inproc:")
    assert "KVQUARRY_TARGET" not in child_environment({})
    assert child_environment({"KVQUARRY_TARGET": "unix:/x"})["KVQUARRY_TARGET"] == "unix:/x"


@pytest.mark.parametrize(
    ("logprob", "equal"), [(-0.5, True), (-0.5000000000000001, False), (NAN, False)]
)
def test_results_are_equal_only_bit_for_bit(logprob: float, equal: bool) -> None:
    one = RequestResult((7,), ((Candidate(7, -0.5),),), 0)
    other = RequestResult((7,), ((Candidate(7, logprob),),), 64)
    assert (one.bits == other.bits) is equal


@pytest.mark.parametrize(
    ("num_equal", "words"),
    [(21, "All outputs equal"), (20, "Outputs DIFFER from stock in 1 of 21")],
)
def test_the_report_says_whether_outputs_were_equal(num_equal: int, words: str) -> None:
    hits = Hits(32, 160, dict.fromkeys((300, 600, 1000, 1500), (0, 160, 160)), (0, 640, 640, 640))
    report = Report("Some CPU", "qwen3-next", hits, hits, Equality(64, 21, num_equal, 4))
    text = io.StringIO()
    show(report, Console(file=text, width=100))
    assert words in text.getvalue()
    assert report.to_dict()["outputs_equal"] is (num_equal == 21)


def test_the_model_alone_can_be_written_and_its_tokenizer_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made" / "model"
    assert main(["--write-model", str(folder)]) == 0
    assert str(folder) in capsys.readouterr().out
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names <= {path.name for path in folder.iterdir()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("w3 w511").ids == [3, 511]


DEMO_THAT_HANGS = """
import sys, time
from pathlib import Path
from kvquarry_vllm.demo.service import ServiceProcess
folder = Path(sys.argv[1])
options = ("--metrics-listen", "off")
service = ServiceProcess(folder / "s", log=folder / "log", options=options)
service.start()
print(service.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_demo_leaves_no_service_running(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DEMO_THAT_HANGS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        service = int(demo.stdout.readline())
        os.kill(service, 0)
        demo.kill()
    deadline = time.monotonic() + 10
    while (tmp_path / "s").exists():
        assert time.monotonic() < deadline, "the service still listens"
        time.sleep(0.05)


def test_nothing_compared_is_not_equal() -> None:
    assert not Equality(64, 0, 0, 0).holds
