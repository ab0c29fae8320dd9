"""One rule set per kind of attention, one file for each.

Each rule answers: how many blocks do these tokens need, which positions are read no more, and what
is the longest valid hit?
Source: vllm-project/vllm#16101 and vLLM's ``single_type_kv_cache_manager``; written anew.
"""

from collections.abc import Callable

from kvquarry_core.group_rules.cross_attention import CrossAttention
from kvquarry_core.group_rules.full_attention import FullAttention
from kvquarry_core.group_rules.recurrent_state import RecurrentState
from kvquarry_core.group_rules.rule import NO_HIT, GroupRule, Hashes, KindHit
from kvquarry_core.group_rules.scratch import Scratch
from kvquarry_core.group_rules.windows import ChunkedLocal, SlidingWindow, Window, window_of
from kvquarry_core.plan import GroupKind, GroupSpec

__all__ = [
    "NO_HIT",
    "ChunkedLocal",
    "CrossAttention",
    "FullAttention",
    "GroupRule",
    "Hashes",
    "KindHit",
    "RecurrentState",
    "Scratch",
    "SlidingWindow",
    "Window",
    "rule_for",
    "window_of",
]

_RULES: dict[GroupKind, Callable[[GroupSpec], GroupRule]] = {
    GroupKind.FULL_ATTENTION: FullAttention,
    GroupKind.SLIDING_WINDOW: SlidingWindow,
    GroupKind.CHUNKED_LOCAL: ChunkedLocal,
    GroupKind.RECURRENT_STATE: RecurrentState,
    GroupKind.CROSS_ATTENTION: CrossAttention,
    GroupKind.SCRATCH: Scratch,
}


def rule_for(spec: GroupSpec) -> GroupRule:
    """The rules a group's kind follows."""
    return _RULES[spec.kind](spec)
