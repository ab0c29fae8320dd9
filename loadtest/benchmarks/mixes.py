"""Operation mixes: made-up requests of two sorts, and what a shadow makes of them."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash
from loadtest.traffic import MadeUpRequest

_HASH_TOKENS = 16
_NUM_FAMILIES = 8


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of one sort; lengths are even between least and most.

    Attributes:
        name: For tables.
        prompt_tokens: Least and most.
        output_tokens: Least and most.
        most_shared: Up to which share of a prompt it begins like others of its family.
    """

    name: str
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    most_shared: float

    def requests(self, seed: int) -> Iterator[MadeUpRequest]:
        """An endless queue; the same one for the same seed."""
        chance = random.Random(seed)
        number = 0
        while True:
            prompt_tokens = chance.randint(*self.prompt_tokens)
            output_tokens = chance.randint(*self.output_tokens)
            num_hashes = (prompt_tokens + output_tokens) // _HASH_TOKENS
            num_shared = int(chance.random() * self.most_shared * prompt_tokens) // _HASH_TOKENS
            family = f"family {chance.randrange(_NUM_FAMILIES)}"
            own = f"{seed}/{number}"
            contents = [family] * num_shared + [own] * (num_hashes - num_shared)
            hashes = tuple(_chain(contents))
            yield MadeUpRequest(f"{self.name}-{number}", hashes, prompt_tokens, output_tokens)
            number += 1


DECODE_HEAVY = Mix("decode-heavy", (50, 1_000), (100, 400), 0.5)
PREFILL_HEAVY = Mix("prefill-heavy", (1_000, 8_000), (1, 40), 0.8)


def _chain(contents: list[str]) -> Iterator[BlockHash]:
    parent = b""
    for content in contents:
        parent = hashlib.sha256(parent + content.encode()).digest()
        yield BlockHash(parent)
