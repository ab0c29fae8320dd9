"""Stock vLLM and then kvquarry on tiny checkpoints of several families, all in one process.

``python -m tests.e2e.families.run FOLDER NUM_WAVES NAME...`` writes one JSON object a line:
which family, whose answers, and the answers. vLLM is imported once. The plug-in finds no target at
first and leaves vLLM alone; when stock has answered for all families, it is given one and called
again. Families of one size come first; then each pool is full of 0xFF before its first use, since
bytes that were of another size are zeroed and bytes nobody wrote are taken for such.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kvquarry_vllm.demo.engine import ENGINE_ENV
from kvquarry_vllm.demo.job import EngineJob, RequestResult, Wave
from tests.e2e.families.catalogue import FAMILIES, Family
from tests.e2e.families.drafted import Drafts, parting_waves
from tests.e2e.harness import all_waves

_ROOMY_BYTES = 64 << 20
_MODEL_TOKENS = 1024
_NUM_DRAFTS = 3
#: Families that are run once more, under this name, with a module of ``tests.e2e.sabotage``. What
#: was planted stays, and a later one's family does not mind.
FAULTS = {"gemma3-eagle": "no_margin", "gemma4": "skip_zeroing", "granite": "skip_zeroing"}
FAULT = "faulty"


@dataclass(frozen=True)
class _Place:
    """Where a family's checkpoint is and how much of the equality workload it gets."""

    folder: Path
    num_waves: int

    @property
    def drafter(self) -> Path:
        """Where the checkpoint of its drafts is, if there are any."""
        return self.folder.with_name(f"{self.folder.name}-drafter")


def main(folder: Path, num_waves: int, names: list[str]) -> None:
    """Run the families; one that fails is told as such and does not stop the others."""
    places = {name: _Place(folder / name, num_waves) for name in names}
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ |= ENGINE_ENV
    for name in names:
        _tell(events, name, "stock", lambda name=name: _stock(FAMILIES[name], places[name]))
    _switch_on_kvquarry()
    for name in sorted(names, key=lambda name: FAMILIES[name].num_sizes):
        if FAMILIES[name].num_sizes > 1:
            importlib.import_module("tests.e2e.sabotage.fill_pool")
        _tell(events, name, "ours", lambda name=name: _ours(FAMILIES[name], places[name]))
    for name in filter(names.__contains__, FAULTS):
        importlib.import_module(f"tests.e2e.sabotage.{FAULTS[name]}")
        _tell(events, name, FAULT, lambda name=name: _ours(FAMILIES[name], places[name]))


def _tell(events: IO[str], name: str, side: str, run: Callable[[], dict[str, Any]]) -> None:
    try:
        told = run()
    except Exception:
        told = {"error": traceback.format_exc()}
    events.write(json.dumps({"family": name, "side": side, **told}) + "\n")
    events.flush()


def _stock(family: Family, place: _Place) -> dict[str, Any]:
    from tests.e2e.families.checkpoint import write_family

    write_family(family, place.folder)
    if family.drafts_by:
        from tests.e2e.families.drafters import write_drafter

        write_drafter(family.drafts_by, place.drafter)
    return _run(_job(family, place, family.stock_block_tokens, _ROOMY_BYTES))


def _ours(family: Family, place: _Place) -> dict[str, Any]:
    return _run(_job(family, place, family.block_tokens, family.tight_pool_bytes))


def _switch_on_kvquarry() -> None:
    os.environ["KVQUARRY_TARGET"] = "inproc:"
    importlib.import_module("kvquarry_vllm.plugin").register()


def _job(family: Family, place: _Place, block_tokens: int, pool_bytes: int) -> EngineJob:
    options = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "max_num_seqs": 11,
        "max_num_batched_tokens": 2048,
        "seed": 0,
        "max_model_len": _MODEL_TOKENS,
        "block_size": block_tokens,
        "kv_cache_memory_bytes": pool_bytes,
        **family.options,
    }
    waves = _waves(place.num_waves, options["max_model_len"])
    if family.drafts_by:
        options["speculative_config"] = {
            "method": family.drafts_by,
            "model": str(place.drafter),
            "num_speculative_tokens": _NUM_DRAFTS,
        }
        waves += parting_waves()
    return EngineJob(str(place.folder), options, waves)


def _waves(num_waves: int, max_model_len: int) -> tuple[Wave, ...]:
    """The first of the equality workload, with those requests that the model is long enough for."""
    return tuple(
        tuple(
            request for request in wave if len(request.prompt) + request.max_tokens < max_model_len
        )
        for wave in all_waves(1)[:num_waves]
    )


def _serve(llm: Any, wave: Wave, num_logprobs: int) -> list[RequestResult]:
    """As the engine process does, but an encoder is given something to encode."""
    from kvquarry_vllm.demo import engine_process

    if not wave or not llm.llm_engine.vllm_config.model_config.is_encoder_decoder:
        return engine_process._serve(llm, wave, num_logprobs)
    from tests.e2e.families.whisper import heard_with

    params = [engine_process._sampling(request, num_logprobs) for request in wave]
    outputs = llm.generate([heard_with(request) for request in wave], params, use_tqdm=False)
    return [engine_process._request_result(output) for output in outputs]


def _run(job: EngineJob) -> dict[str, Any]:
    from vllm.distributed import cleanup_dist_env_and_memory

    from kvquarry_vllm.demo import engine_process

    begun = time.monotonic()
    llm: Any = engine_process._build_engine(job)
    started = time.monotonic()
    drafts = Drafts(llm.llm_engine.engine_core.engine_core.scheduler)
    served = []
    for wave in job.waves:
        served += _serve(llm, wave, job.num_logprobs)
    result = engine_process._measured(
        llm, tuple(served), startup_s=started - begun, wall_s=time.monotonic() - started
    )
    changes = _class_changes(llm.llm_engine.engine_core.engine_core.scheduler)
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    cleanup_dist_env_and_memory()
    return {"result": result.to_dict(), "num_class_changes": changes, "drafts": drafts.in_order()}


def _class_changes(scheduler: Any) -> int:
    """How often a slab went from one size class to another; stock has no slabs."""
    shadow = getattr(scheduler.kv_cache_manager, "shadow", None)
    if shadow is None:
        return 0
    return sum(map(sum, shadow.ledger.pool.store.slabs.num_class_changes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
