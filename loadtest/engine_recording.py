"""Recordings of real vLLM engines: a tiny Qwen3-Next on the CPU, blocks of 32 tokens.

The model is small, so prompts and outputs can be as long as those of a server in use.
"""

import base64
import json
import random
import tempfile
from pathlib import Path
from typing import Final

from kvquarry_vllm.demo.checkpoint import VOCAB_SIZE, qwen3_next, write_checkpoint
from kvquarry_vllm.demo.engine import run_engine
from kvquarry_vllm.demo.job import EngineJob, PromptRequest, Wave
from kvquarry_vllm.demo.jobs import MIB
from loadtest.benchmarks.recording import Recording, recording_of
from loadtest.benchmarks.tape import Said
from loadtest.engine import MAX_RUNNING
from loadtest.real_engine import ENGINE_TIMEOUT_S, Arm, common_options

#: Names the file to write to.
TAPE_ENV: Final = "LOADTEST_TAPE"

#: The smallest that the CPU's attention kernel takes.
_BLOCK_TOKENS: Final = 32
#: Some 32 requests fit in, and what they leave behind is evicted before the end.
_POOL_BYTES: Final = 192 * MIB
_MAX_MODEL_LEN: Final = 4096
_NUM_FAMILIES: Final = 8


def engine_waves() -> dict[str, Wave]:
    """What the engines serve, 32 requests at a time: chats, and questions about documents."""
    return {
        "decode-heavy": _wave(1, 64, prompt_tokens=(500, 1_000), max_tokens=256),
        "prefill-heavy": _wave(2, 96, prompt_tokens=(1_000, 3_000), max_tokens=16),
    }


def _wave(seed: int, num_requests: int, prompt_tokens: tuple[int, int], max_tokens: int) -> Wave:
    """Prompts of which up to four fifths are shared with others of their family."""
    chance = random.Random(seed)
    families = [_tokens(chance, prompt_tokens[1]) for _ in range(_NUM_FAMILIES)]
    wave = []
    for _ in range(num_requests):
        num_tokens = chance.randint(*prompt_tokens)
        num_shared = int(chance.random() * 0.8 * num_tokens)
        own = _tokens(chance, num_tokens - num_shared)
        wave.append(PromptRequest(chance.choice(families)[:num_shared] + own, max_tokens))
    return tuple(wave)


def _tokens(chance: random.Random, count: int) -> tuple[int, ...]:
    return tuple(chance.randrange(3, VOCAB_SIZE) for _ in range(count))


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
        max_model_len=_MAX_MODEL_LEN,
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
