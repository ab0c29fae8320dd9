"""One service for all tests that leave it running, and a name for each test's engine."""

from collections.abc import Iterator

import grpc
import pytest

from tests.contract.running_service import RunningService, connected, sound_service

LEASE_S = 0.5


@pytest.fixture(scope="session")
def service() -> Iterator[RunningService]:
    with sound_service("--lease-seconds", str(LEASE_S), "--reflection") as service:
        yield service


@pytest.fixture(scope="session")
def channel(service: RunningService) -> Iterator[grpc.Channel]:
    with connected(service.target) as channel:
        yield channel


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name no other test's engine has."""
    node: str = request.node.name
    return node[:200].replace(" ", "_")
