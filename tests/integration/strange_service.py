"""A service that does what no service should."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from kvquarry.v1alpha import pool_pb2, pool_pb2_grpc
from kvquarry_client.target import Target, parse_target

Requests = Iterator[pool_pb2.AttachRequest]
Responses = Iterator[pool_pb2.AttachResponse]
WELCOME = pool_pb2.AttachResponse(welcome=pool_pb2.Welcome())


class StrangeService(pool_pb2_grpc.PoolServiceServicer):
    """Its streams do as the test says."""

    def __init__(self, attach: Callable[[Requests], Responses]) -> None:
        self.num_streams = 0
        self._attach = attach

    def Attach(self, request_iterator: Requests, context: object) -> Responses:  # noqa: N802
        self.num_streams += 1
        return self._attach(request_iterator)


@contextmanager
def serving(service: StrangeService, path: Path) -> Iterator[Target]:
    server = grpc.server(ThreadPoolExecutor(4))
    pool_pb2_grpc.add_PoolServiceServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield parse_target(f"unix:{path}")
    server.stop(None).wait()
