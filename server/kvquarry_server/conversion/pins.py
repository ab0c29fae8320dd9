"""What operators ask of pins, from the wire and to it."""

from collections.abc import Iterable

from kvquarry.v1alpha import admin_pb2
from kvquarry_server.registry import PinNames, Unpinned
from kvquarry_server.status import PinStatus


def pins_to_wire(pins: Iterable[PinStatus]) -> admin_pb2.ListPinsResponse:
    """All pins."""
    return admin_pb2.ListPinsResponse(
        pins=[
            admin_pb2.PinStatus(
                engine=pin.engine,
                pool_id=pin.pool_id,
                pin_id=pin.pin_id,
                token_count=pin.num_tokens,
                size_bytes=pin.size_bytes,
                remaining_seconds=pin.remaining_s,
            )
            for pin in pins
        ]
    )


def pin_names_from_wire(message: admin_pb2.UnpinRequest) -> PinNames:
    """Which pins are to end."""
    return PinNames(frozenset(message.pin_ids), message.engine)


def unpinned_to_wire(unpinned: Unpinned) -> admin_pb2.UnpinResponse:
    """Which pins ended."""
    return admin_pb2.UnpinResponse(
        ended_count=unpinned.num_ended,
        missing_pin_ids=unpinned.missing_ids,
        engine_missing=unpinned.is_engine_missing,
    )
