"""The model that churn is measured on."""

from kvquarry_core.plan import GroupKind, GroupSpec

#: Qwen3.6-35B-A3B: ten layers of attention and three groups of ten states.
QWEN36_35B_A3B = (
    GroupSpec(GroupKind.FULL_ATTENTION, block_tokens=16, page_bytes=32_768, num_layers=10),
    *[GroupSpec(GroupKind.RECURRENT_STATE, 16, page_bytes=2_146_304, num_layers=10)] * 3,
)
