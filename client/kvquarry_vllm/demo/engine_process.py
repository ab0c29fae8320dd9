"""One real vLLM engine in a process of its own: ``python -m kvquarry_vllm.demo.engine_process``.

Reads an ``EngineJob`` as the first line of standard input and writes events, one JSON object a
line, to standard output; everything vLLM prints goes to standard error. The rest of standard input
is a leash: when it ends, the owner is gone and this process ends with all its workers.
"""

import importlib
import json
import os
import signal
import sys
import threading
import time
from typing import IO, Any

from kvquarry_vllm.demo.job import (
    Candidate,
    EngineJob,
    EngineResult,
    GroupLayout,
    PromptRequest,
    RequestResult,
    Wave,
)


def main() -> None:
    """Build the engine, serve the waves, report, and with ``hold`` wait to be let go."""
    events = _claim_stdout()
    job = EngineJob.from_json(sys.stdin.readline())
    begun = time.monotonic()
    idle, released = threading.Event(), threading.Event()
    threading.Thread(target=_follow_owner, args=(idle, released), daemon=True).start()
    for module in job.preload:
        importlib.import_module(module)
    llm = _build_engine(job)
    startup_s = time.monotonic() - begun
    _emit(events, {"event": "started", "startup_s": startup_s})
    served: list[RequestResult] = []
    begun = time.monotonic()
    for index, wave in enumerate(job.waves):
        served += _serve(llm, wave, job.num_logprobs)
        _emit(events, {"event": "wave", "index": index, "num_waves": len(job.waves)})
    wall_s = time.monotonic() - begun
    result = _measured(llm, tuple(served), startup_s=startup_s, wall_s=wall_s)
    if job.hold:
        idle.set()  # before the result is told: its owner may let go the moment it has it
    _emit(events, {"event": "result", "result": result.to_dict()})
    if job.hold:
        released.wait()


def _claim_stdout() -> IO[str]:
    """Keep the real standard output for events and send what libraries print to standard error."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _emit(events: IO[str], event: dict[str, Any]) -> None:
    events.write(json.dumps(event) + "\n")
    events.flush()


def _follow_owner(idle: threading.Event, released: threading.Event) -> None:
    """Block until standard input ends: an idle engine is released, a busy one is killed.

    Reads the descriptor and not ``sys.stdin``, whose lock would be held when the interpreter ends.
    """
    while os.read(0, 4096):
        pass
    if idle.is_set():
        released.set()
    elif os.getsid(0) == os.getpid():  # never a shell's group: only one that was made for us
        os.killpg(0, signal.SIGKILL)


def _build_engine(job: EngineJob) -> Any:
    from vllm import LLM

    return LLM(job.model, disable_log_stats=False, **job.options)


def _serve(llm: Any, wave: Wave, num_logprobs: int) -> list[RequestResult]:
    prompts = [{"prompt_token_ids": list(request.prompt)} for request in wave]
    params = [_sampling(request, num_logprobs) for request in wave]
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [_request_result(output) for output in outputs]


def _sampling(request: PromptRequest, num_logprobs: int) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=request.max_tokens,
        ignore_eos=True,
        logprobs=num_logprobs,
        detokenize=False,
    )


def _request_result(output: Any) -> RequestResult:
    completion = output.outputs[0]
    candidates = tuple(
        tuple(Candidate(token, entry.logprob) for token, entry in sorted(place.items()))
        for place in completion.logprobs
    )
    return RequestResult(tuple(completion.token_ids), candidates, output.num_cached_tokens)


def _measured(
    llm: Any, requests: tuple[RequestResult, ...], *, startup_s: float, wall_s: float
) -> EngineResult:
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    manager = type(scheduler.kv_cache_manager)
    preemptions = [m for m in llm.get_metrics() if m.name == "vllm:num_preemptions"]
    return EngineResult(
        requests=requests,
        groups=tuple(_layout(group) for group in scheduler.kv_cache_config.kv_cache_groups),
        block_size_tokens=llm.llm_engine.vllm_config.cache_config.block_size,
        num_preemptions=sum(int(metric.value) for metric in preemptions),
        manager=f"{manager.__module__}.{manager.__qualname__}",
        startup_s=startup_s,
        wall_s=wall_s,
    )


def _layout(group: Any) -> GroupLayout:
    spec = group.kv_cache_spec
    unpadded = getattr(spec, "real_page_size_bytes", None) or _state_bytes(spec)
    return GroupLayout(
        kind=type(spec).__name__,
        num_layers=len(group.layer_names),
        block_size_tokens=spec.block_size,
        page_bytes=spec.page_size_bytes,
        unpadded_page_bytes=unpadded,
    )


def _state_bytes(spec: Any) -> int:
    """A recurrent state's own bytes; vLLM's page size of it may be padded up to another group's."""
    import math

    import torch

    sizes = zip(spec.shapes, spec.dtypes, strict=True)
    return sum(math.prod(shape) * torch.empty(0, dtype=dtype).itemsize for shape, dtype in sizes)


if __name__ == "__main__":
    main()
