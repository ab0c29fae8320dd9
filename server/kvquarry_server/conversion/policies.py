"""The names of policies."""

from kvquarry.v1alpha import pool_pb2
from kvquarry_core.policies import PolicyNames


def policies_from_wire(message: pool_pb2.Policies) -> PolicyNames:
    """What an engine chose; empty where it leaves the choice to the service."""
    return PolicyNames(message.placement, message.eviction, message.relocation, message.retention)


def policies_to_wire(names: PolicyNames) -> pool_pb2.Policies:
    """What a pool goes by."""
    return pool_pb2.Policies(
        placement=names.placement,
        eviction=names.eviction,
        relocation=names.relocation,
        retention=names.retention,
    )
