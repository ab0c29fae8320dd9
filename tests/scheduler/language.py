"""A deterministic model of text: what is said next depends on everything said before.

A prefix is named by a fingerprint, so that memory can be checked for *whose* content it holds: the
KV of a token depends on all tokens before it, and equal prefixes have equal KV. Like greedy
decoding, equal prompts go on with equal outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: A Mersenne prime: fingerprints stay below it, and so below bit 61, which memory uses for itself.
MODULUS = (1 << 61) - 1
_MULTIPLIER = 0x1B873593CC9E2D51 % MODULUS
_VOCABULARY = 997


def mix(fingerprint: int, token: int) -> int:
    """The fingerprint of a prefix that is one token longer."""
    return (fingerprint * _MULTIPLIER + token * 0x9E3779B1 + 0x7F4A7C15) % MODULUS


def next_token(fingerprint: int) -> int:
    """What the model says after a prefix; never 0."""
    return 1 + (fingerprint >> 17) % _VOCABULARY


class Text:
    """The true text of one request: its prompt and all that the model will ever say after it."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.num_prompt_tokens = len(prompt)
        self._tokens = list(prompt)
        self._fingerprints = np.zeros(max(64, 2 * len(self._tokens)), dtype=np.int64)
        self._num_fingerprints = 0
        self._last = 0
        self._fingerprint_up_to(len(self._tokens))

    def tokens(self, start: int, stop: int) -> list[int]:
        """The tokens at positions ``start <= p < stop``."""
        self._reach(stop)
        return self._tokens[start:stop]

    def fingerprints(self, start: int, stop: int) -> np.ndarray:
        """For each position ``start <= p < stop``, the fingerprint of the text through ``p``."""
        self._reach(stop)
        return self._fingerprints[start:stop]

    def fingerprint(self, num_tokens: int) -> int:
        """The fingerprint of the first ``num_tokens`` tokens."""
        if num_tokens == 0:
            return 0
        self._reach(num_tokens)
        return int(self._fingerprints[num_tokens - 1])

    def drafts(self, position: int, num_drafts: int, acceptance_percent: int) -> list[int]:
        """Guesses for the tokens from ``position`` on; the script lets some of them be wrong."""
        drafts = []
        for index, true in enumerate(self.tokens(position, position + num_drafts)):
            luck = (self.fingerprint(position + index) >> 7) % 100
            drafts.append(true if luck < acceptance_percent else wrong_token(true))
        return drafts

    def _reach(self, num_tokens: int) -> None:
        while len(self._tokens) < num_tokens:
            self._tokens.append(next_token(self._last))
            self._fingerprint_up_to(len(self._tokens))

    def _fingerprint_up_to(self, num_tokens: int) -> None:
        if num_tokens > len(self._fingerprints):
            self._fingerprints = np.concatenate(
                [self._fingerprints, np.zeros(num_tokens, dtype=np.int64)]
            )
        for position in range(self._num_fingerprints, num_tokens):
            self._last = mix(self._last, self._tokens[position])
            self._fingerprints[position] = self._last
        self._num_fingerprints = num_tokens


def wrong_token(true: int) -> int:
    """A token the model would not have said."""
    return true % _VOCABULARY + 1
