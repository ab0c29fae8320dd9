"""Health and reflection answer as the standards say."""

from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from kvquarry.v1alpha import admin_pb2, admin_pb2_grpc
from tests.contract.running_service import RunningService, connected, running_service

SERVICES = ("PoolService", "WorkerService", "AdminService")


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningService]:
    """A service with a health port, listening on TCP as well, and without reflection."""
    flags = ("--health-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    with running_service(*flags) as service:
        yield service


def listed(channel: grpc.Channel) -> set[str]:
    """The services that reflection lists."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (response,) = stub.ServerReflectionInfo(iter([request]), timeout=5)
    return {service.name for service in response.list_services_response.service}


@pytest.mark.parametrize("name", ["", *(f"kvquarry.v1alpha.{name}" for name in SERVICES)])
def test_every_service_is_serving(channel: grpc.Channel, name: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    response = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
    assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_a_service_nobody_knows_is_not_found(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as failure:
        stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=5)
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


def test_the_health_port_answers_probes_and_nothing_else(plain: RunningService) -> None:
    with connected(plain.found(r"health on (\S+)")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        response = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert response.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as failure:
            admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
                admin_pb2.GetStatusRequest(), timeout=5
            )
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_all_addresses_lead_to_the_same_service(plain: RunningService) -> None:
    boot_ids = set()
    for target in (plain.target, plain.found(r"\S+ (127\.0\.0\.1:\d+) metrics")):
        with connected(target) as channel:
            status = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(
                admin_pb2.GetStatusRequest(), timeout=5
            )
            boot_ids.add(status.boot_id)
    assert len(boot_ids) == 1


def test_the_service_describes_itself_when_told_to(
    channel: grpc.Channel, plain: RunningService
) -> None:
    assert {f"kvquarry.v1alpha.{name}" for name in SERVICES} < listed(channel)
    with connected(plain.target) as silent, pytest.raises(grpc.RpcError) as failure:
        listed(silent)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
