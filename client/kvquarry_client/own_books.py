"""The digest of a shadow's books, as the pool makes it of its own; see ``kvquarry_core.books``."""

from collections.abc import Sequence

from kvquarry_client.records import ShadowRequest
from kvquarry_client.stock import StateStock
from kvquarry_core.books import digest_of
from kvquarry_core.ids import BlockId, KindId
from kvquarry_core.plan import Plan


def digest_of_shadow(plan: Plan, requests: Sequence[ShadowRequest], stock: StateStock) -> bytes:
    """The digest of all requests that hold blocks, and of the states that are leased."""
    leased: list[list[BlockId]] = [[] for _ in plan.groups]
    for index, members in enumerate(plan.kinds):
        columns = [stock.columns(KindId(index))]
        columns += [request.private_columns()[index] for request in requests]
        for of_members in columns:
            for group, blocks in zip(members, of_members, strict=True):
                leased[group] += blocks
    return digest_of((request.holding() for request in requests), leased)
