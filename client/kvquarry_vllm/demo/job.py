"""What one engine is asked to do and what it answers, as values that travel as JSON."""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One greedy request: prompt token ids and how many tokens to decode."""

    prompt: tuple[int, ...]
    max_tokens: int


Wave = tuple[PromptRequest, ...]
"""Requests submitted together; the engine's ``max_num_seqs`` bounds how many run at once."""


@dataclass(frozen=True, slots=True)
class EngineJob:
    """One engine's whole life: its options, its environment and its waves of requests.

    Attributes:
        model: The checkpoint's folder.
        options: The keyword arguments of ``vllm.LLM`` besides the model. They must give
            ``block_size``: vLLM's own default is not stable in the CPU build.
        waves: What is sent, one wave after another.
        env: Laid over a copy of this process's environment that has lost its KVQUARRY_* variables,
            so that no KVQUARRY_TARGET means stock vLLM.
        num_logprobs: How many candidates are reported for each token.
        preload: Modules to import before the engine is built.
        hold: Stay alive after the last wave until the owner lets go.
    """

    model: str
    options: Mapping[str, Any]
    waves: tuple[Wave, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    num_logprobs: int = 3
    preload: tuple[str, ...] = ()
    hold: bool = False

    def __post_init__(self) -> None:
        if "block_size" not in self.options:
            raise ValueError("an engine job must give options['block_size']")

    def to_json(self) -> str:
        """One line of JSON, which ``from_json`` reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The job that ``to_json`` wrote."""
        data = json.loads(text)
        data["waves"] = tuple(
            tuple(PromptRequest(tuple(r["prompt"]), r["max_tokens"]) for r in wave)
            for wave in data["waves"]
        )
        data["preload"] = tuple(data["preload"])
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the likeliest tokens at a position and its logprob, down to the last bit."""

    token: int
    logprob: float

    @property
    def bits(self) -> tuple[int, bytes]:
        """Equal exactly when token and logprob are the same bit for bit, not-a-number included."""
        return self.token, struct.pack("<d", self.logprob)


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What one request got: its tokens, the candidates at each position, its prefix hit."""

    tokens: tuple[int, ...]
    candidates: tuple[tuple[Candidate, ...], ...]
    num_cached_tokens: int

    @property
    def bits(self) -> tuple[object, ...]:
        """Equal exactly when tokens and logprobs are equal bit for bit; ignores the hit."""
        return self.tokens, tuple(tuple(c.bits for c in place) for place in self.candidates)


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """One KV cache group as the engine planned it; bytes are one layer's page."""

    kind: str
    num_layers: int
    block_size_tokens: int
    page_bytes: int
    unpadded_page_bytes: int


@dataclass(frozen=True, slots=True)
class EngineResult:
    """Everything measured in one engine's life; ``requests`` are in the order of the waves."""

    requests: tuple[RequestResult, ...]
    groups: tuple[GroupLayout, ...]
    block_size_tokens: int
    num_preemptions: int
    manager: str
    startup_s: float
    wall_s: float

    @property
    def served_by_kvquarry(self) -> bool:
        """Whether the engine's KV cache manager was ours."""
        return self.manager.startswith("kvquarry")

    def to_dict(self) -> dict[str, Any]:
        """As JSON can carry it; ``from_dict`` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The result that ``to_dict`` wrote."""
        requests = tuple(_request_result(item) for item in data.pop("requests"))
        groups = tuple(GroupLayout(**item) for item in data.pop("groups"))
        return cls(requests=requests, groups=groups, **data)


def _request_result(data: dict[str, Any]) -> RequestResult:
    candidates = tuple(tuple(Candidate(**c) for c in place) for place in data["candidates"])
    return RequestResult(tuple(data["tokens"]), candidates, data["num_cached_tokens"])
