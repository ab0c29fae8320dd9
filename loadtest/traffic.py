"""Made-up requests: families of them begin alike, as chats share a system prompt."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash

_NUM_FAMILIES = 8
_SHORTEST_PROMPT_TOKENS = 20
_LONGEST_PROMPT_TOKENS = 2000
_LONGEST_OUTPUT_TOKENS = 100


@dataclass(frozen=True, slots=True)
class MadeUpRequest:
    """A request whose whole life is known beforehand.

    Attributes:
        request_id: Its name, never used twice by one engine.
        hashes: Of all its full blocks, those of its output included.
        prompt_tokens: Length of the prompt.
        output_tokens: Tokens it decodes, at least 1.
    """

    request_id: str
    hashes: tuple[BlockHash, ...]
    prompt_tokens: int
    output_tokens: int

    @property
    def num_tokens(self) -> int:
        """Tokens whose keys and values are computed; those of the last output never are."""
        return self.prompt_tokens + self.output_tokens - 1


class Traffic:
    """An endless, repeatable queue of requests."""

    def __init__(self, seed: int, hash_tokens: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._hash_tokens = hash_tokens

    def requests(self) -> Iterator[MadeUpRequest]:
        """One request after another; the same ones for the same seed."""
        number = 0
        while True:
            prompt_tokens = self._random.randint(_SHORTEST_PROMPT_TOKENS, _LONGEST_PROMPT_TOKENS)
            output_tokens = self._random.randint(1, _LONGEST_OUTPUT_TOKENS)
            num_hashes = (prompt_tokens + output_tokens) // self._hash_tokens
            num_shared = self._random.randint(0, prompt_tokens // self._hash_tokens)
            family = self._random.randrange(_NUM_FAMILIES)
            own = f"{self._seed}/{number}"
            contents = [f"family {family}"] * num_shared + [own] * (num_hashes - num_shared)
            hashes = tuple(_chain(contents))
            yield MadeUpRequest(f"request-{number}", hashes, prompt_tokens, output_tokens)
            number += 1


def _chain(contents: list[str]) -> Iterator[BlockHash]:
    """A hash names its block's content and, through its parent, the whole prefix."""
    parent = b""
    for content in contents:
        parent = hashlib.sha256(parent + content.encode()).digest()
        yield BlockHash(parent)
