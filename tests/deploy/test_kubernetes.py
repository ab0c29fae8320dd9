"""What the pod promises: closed containers, a sidecar that starts first and drains last."""

from typing import Any

import pytest

from kvquarry_server.settings import ServeSettings
from tests.deploy import dockerfile, manifests
from tests.deploy.manifests import containers, mount_of, plain_environment, pod, ports, volumes
from tests.deploy.service_flags import settings_from

BUFFER_S = 15


def sidecar() -> dict[str, Any]:
    return containers()["kvquarry"]


def vllm() -> dict[str, Any]:
    return containers()["vllm"]


def sidecar_settings() -> ServeSettings:
    return settings_from(sidecar()["args"], dockerfile.environment())


# Closed.


def test_the_pod_runs_as_the_user_of_the_image_without_a_token() -> None:
    context = pod()["securityContext"]
    assert context["runAsNonRoot"] is True
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == dockerfile.only("USER").text
    assert context["fsGroup"] == context["runAsGroup"]  # who may write to the socket's volume
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod()["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", containers())
def test_a_container_is_closed(name: str) -> None:
    assert containers()[name]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", containers())
def test_memory_is_limited_and_time_is_not(name: str) -> None:
    resources = containers()[name]["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert "cpu" in resources["requests"]
    assert "cpu" not in resources["limits"]


# The sidecar.


def test_the_service_is_a_native_sidecar_that_gates_vllm() -> None:
    assert [one["name"] for one in pod()["initContainers"]] == ["plugin", "kvquarry"]
    assert sidecar()["restartPolicy"] == "Always"
    assert "startupProbe" in sidecar()


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_a_probe_asks_the_service_for_its_health_and_nobody_else(probe: str) -> None:
    health = sidecar_settings().health_listen
    assert health is not None
    assert (health.host, health.port) == ("0.0.0.0", ports(sidecar())["health"])
    asked = set(sidecar()[probe]) & {"exec", "grpc", "httpGet", "tcpSocket"}
    assert asked == {"grpc"}
    assert sidecar()[probe]["grpc"] == {"port": health.port}


def test_draining_never_looks_dead() -> None:
    probe = sidecar()["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > sidecar_settings().drain_s


def test_the_sidecar_depends_on_nothing_else() -> None:
    assert "redis" not in str(sidecar()).lower()
    assert "env" not in sidecar()


def test_metrics_are_shown_on_the_port_of_that_name() -> None:
    metrics = sidecar_settings().metrics_listen
    assert metrics is not None
    assert (metrics.host, metrics.port) == ("0.0.0.0", ports(sidecar())["metrics"])


def test_the_podmonitor_finds_the_pod_and_its_ports() -> None:
    (monitor,) = manifests.documents(manifests.PODMONITOR / "podmonitor.yaml")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert wanted <= manifests.pod_template()["metadata"]["labels"].items()
    named = [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]]
    assert named == ["metrics", "http"]
    assert set(named) <= ports(sidecar()).keys() | ports(vllm()).keys()


def test_the_service_of_vllm_finds_the_pod_and_its_port() -> None:
    (service,) = manifests.documents(manifests.BASE / "service.yaml")
    wanted = service["spec"]["selector"].items()
    assert wanted <= manifests.pod_template()["metadata"]["labels"].items()
    assert {one["targetPort"] for one in service["spec"]["ports"]} <= ports(vllm()).keys()


# The two together.


def test_vllm_finds_the_socket_that_the_service_makes() -> None:
    (listen,) = sidecar_settings().listen
    target = plain_environment(vllm())["KVQUARRY_TARGET"]
    assert target == str(listen)
    for container in (sidecar(), vllm()):
        folder = mount_of(container, "socket")
        assert target.removeprefix("unix:").rpartition("/")[0] == folder


def test_the_socket_lies_in_memory() -> None:
    assert volumes()["socket"]["emptyDir"]["medium"] == "Memory"


def test_the_engine_is_named_for_its_pod() -> None:
    (name,) = (one for one in vllm()["env"] if one["name"] == "KVQUARRY_ENGINE")
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_the_plugin_goes_from_the_image_to_the_path_of_vllm() -> None:
    plugin = containers()["plugin"]
    _, _, source, destination = plugin["command"]
    unpacked = [one.text for one in dockerfile.stages()[0] if "zipfile -e" in one.text]
    assert unpacked[0].split()[-1] == source.removesuffix("/.")
    assert destination == mount_of(plugin, "plugin")
    assert plain_environment(vllm())["PYTHONPATH"] == mount_of(vllm(), "plugin")


def test_the_pod_has_time_to_end_well() -> None:
    (_, pre_stop_s) = vllm()["lifecycle"]["preStop"]["exec"]["command"]
    flags = dict(flag.split("=") for flag in vllm()["args"] if "=" in flag)
    vllm_s = int(pre_stop_s) + int(flags["--shutdown-timeout"])
    needed_s = vllm_s + BUFFER_S + sidecar_settings().drain_s
    assert pod()["terminationGracePeriodSeconds"] >= needed_s


def test_vllm_writes_to_volumes_only() -> None:
    environment = plain_environment(vllm())
    writable = {
        one["mountPath"] for one in vllm()["volumeMounts"] if not one.get("readOnly", False)
    }
    assert {environment["HOME"], "/tmp", "/dev/shm"} <= writable
