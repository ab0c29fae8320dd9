"""Checkpoints, a real service and stock baselines, each made once for all tests of real vLLM."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvquarry_vllm.demo.checkpoint import llama, qwen3_next, write_checkpoint
from kvquarry_vllm.demo.job import EngineResult
from kvquarry_vllm.demo.jobs import equality_job, stock_env
from kvquarry_vllm.demo.preflight import this_processor
from kvquarry_vllm.demo.service import ServiceProcess
from kvquarry_vllm.demo.tokenizer import write_tokenizer
from tests.e2e.harness import SEEDS, Engines, all_waves

#: Short, so that the pools of killed engines are seen to go within a test.
LEASE_S = 3


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """Runs engines, with their logs in one folder."""
    return Engines(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="session")
def socket_folder() -> Iterator[Path]:
    """A folder whose name leaves room within the 107 bytes of a socket's path."""
    with tempfile.TemporaryDirectory(prefix="kvq-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def service(socket_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The target of a running ``kvquarry serve``."""
    log = tmp_path_factory.mktemp("service") / "service.log"
    options = ("--metrics-listen", "off", "--lease-seconds", str(LEASE_S))
    with ServiceProcess(socket_folder / "kvquarry.sock", log=log, options=options) as process:
        yield process.target


@pytest.fixture(scope="session")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3-Next checkpoint with a tokenizer."""
    processor = this_processor()
    if not processor.runs_hybrids:
        pytest.skip(processor.verdict)
    folder = write_checkpoint(qwen3_next(), tmp_path_factory.mktemp("models") / "qwen3-next")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def full_attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama checkpoint."""
    return write_checkpoint(llama(), tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def stock_hybrid(engines: Engines, hybrid: Path) -> EngineResult:
    """What stock vLLM answers to the whole equality workload."""
    return engines.run(equality_job(hybrid, stock_env(), all_waves(*SEEDS)))
