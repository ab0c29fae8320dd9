"""Block hashes at any block size, out of a trace's names for 512 tokens each."""

import struct
from collections.abc import Iterable

from kvquarry_core.ids import BlockHash
from kvquarry_tools.simulation.traces import UNIT_TOKENS, TraceRequest

_PROMPT = struct.Struct(">cQH")
_OUTPUT = struct.Struct(">cIQ")


class Names:
    """The hashes of one request: equal to another's iff the prefixes are equal as the trace tells.

    A position inside a unit is named by the unit and its place in it: a trace does not say whether
    two units that differ begin alike, so they count as different from their first token on. Output
    is nobody else's.
    """

    def __init__(self, request: TraceRequest, serial: int, hash_tokens: int) -> None:
        self._request = request
        self._serial = serial
        self._hash_tokens = hash_tokens

    def up_to(self, num_tokens: int) -> list[BlockHash]:
        """Hashes of all full hash units within ``num_tokens``."""
        return [self.at(end) for end in self._ends(num_tokens)]

    def at(self, num_tokens: int) -> BlockHash:
        """The hash that names exactly the first ``num_tokens`` tokens."""
        if num_tokens > self._request.num_prompt_tokens:
            return BlockHash(_OUTPUT.pack(b"o", self._serial, num_tokens))
        unit, place = divmod(num_tokens - 1, UNIT_TOKENS)
        return BlockHash(_PROMPT.pack(b"p", self._request.units[unit], place))

    def _ends(self, num_tokens: int) -> Iterable[int]:
        return range(self._hash_tokens, num_tokens + 1, self._hash_tokens)
