"""Recordings of real vLLM engines: a tiny Qwen3-Next on the CPU, blocks of 32 tokens."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Final

from kvquarry_vllm.demo.checkpoint import qwen3_next, write_checkpoint
from kvquarry_vllm.demo.engine import run_engine
from kvquarry_vllm.demo.job import EngineJob, Wave
from kvquarry_vllm.demo.jobs import MIB
from loadtest.benchmarks.recording import Recording, recording_of
from loadtest.benchmarks.tape import Said
from loadtest.engine import MAX_RUNNING, decode_heavy, prefill_heavy
from loadtest.real_engine import ENGINE_TIMEOUT_S, Arm, common_options

#: Names the file to write to.
TAPE_ENV: Final = "LOADTEST_TAPE"

#: The smallest that the CPU's attention kernel takes.
_BLOCK_TOKENS: Final = 32
#: 32 requests fit in, and what they leave behind is evicted before the end.
_POOL_BYTES: Final = 96 * MIB


def engine_waves() -> dict[str, Wave]:
    """What the engines serve, 32 requests at a time."""
    return {
        "decode-heavy": decode_heavy(96, max_tokens=96),
        "prefill-heavy": prefill_heavy(96),
    }


def record_engine(target: str, mix: str, wave: Wave) -> Recording:
    """Let an engine serve a wave against a service and keep what went over the wire."""
    with tempfile.TemporaryDirectory(prefix="kvq-") as name:
        folder = Path(name)
        model = write_checkpoint(qwen3_next(), folder / "model")
        tape = folder / "tape.jsonl"
        job = _job(model, target, wave, tape)
        run_engine(job, log=folder / "engine.log", timeout_s=ENGINE_TIMEOUT_S)
        return _recording(mix, tape)


def _job(model: Path, target: str, wave: Wave, tape: Path) -> EngineJob:
    arm = Arm("recording", "unix:", _BLOCK_TOKENS)
    options = common_options(
        arm,
        max_model_len=1024,
        max_num_seqs=MAX_RUNNING,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=_POOL_BYTES,
    )
    env = {**arm.env(target), TAPE_ENV: str(tape)}
    return EngineJob(str(model), options, (wave,), env, preload=("loadtest.real_engine_tape",))


def _recording(mix: str, tape: Path) -> Recording:
    said: dict[Said, list[bytes]] = {one: [] for one in Said}
    for line in tape.read_text().splitlines():
        entry = json.loads(line)
        said[Said(entry["said"])].append(base64.b64decode(entry["message"]))
    return recording_of(mix, "vLLM", said)
