"""Clients and proxies may ping between calls; gRPC's default would send them away."""

import socket
import struct
import time

from tests.contract.running_service import RunningService

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY, ACK = 0x4, 0x6, 0x7, 0x1
#: Twenty times as often as clients ping; the default permits one ping in 300 s and two strikes.
INTERVAL_S = 0.55
NUM_PINGS = 5


def frame(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + bytes(4) + payload


def read_frame(connection: socket.socket) -> tuple[int, int, bytes]:
    """Kind, flags and payload of the next frame."""
    head = connection.recv(9, socket.MSG_WAITALL)
    assert len(head) == 9, "the service closed the connection"
    length = int.from_bytes(head[:3], "big")
    return head[3], head[4], connection.recv(length, socket.MSG_WAITALL)


def test_pings_without_calls_are_answered_and_never_punished(service: RunningService) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(service.target.removeprefix("unix:"))
        connection.sendall(PREFACE + frame(SETTINGS, b""))
        num_answered = 0
        for number in range(NUM_PINGS):
            payload = struct.pack(">Q", number)
            connection.sendall(frame(PING, payload))
            while True:
                kind, flags, content = read_frame(connection)
                assert kind != GOAWAY, content
                if kind == SETTINGS and not flags & ACK:
                    connection.sendall(frame(SETTINGS, b"", ACK))
                elif (kind, flags, content) == (PING, ACK, payload):
                    num_answered += 1
                    break
            time.sleep(INTERVAL_S)
        assert num_answered == NUM_PINGS
