"""What every oracle here raises."""

from __future__ import annotations


class Violation(AssertionError):
    """A law of the KV cache was broken; the message names the request, the block and the law."""
