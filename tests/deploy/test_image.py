"""The image's recipe, as far as it can be held without a container engine."""

import subprocess

from tests.architecture.repository import ROOT
from tests.deploy import dockerfile
from tests.deploy.service_flags import settings_from, target_from
from tests.deploy.tools import of_environment


def test_hadolint_finds_nothing() -> None:
    command = [of_environment("hadolint"), str(dockerfile.DOCKERFILE)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_what_is_copied_is_let_into_the_build_context() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {source.split("/", maxsplit=1)[0] for source in dockerfile.copied_sources()}
    assert "*" in lines
    assert copied == let_in


def test_the_image_runs_the_service_as_an_unprivileged_user() -> None:
    assert dockerfile.only("USER").text == "65532:65532"
    assert dockerfile.only("ENTRYPOINT").words() == ["kvquarry", "serve"]


def test_metrics_and_health_are_reachable_from_outside_the_container() -> None:
    settings = settings_from([], dockerfile.environment())
    assert settings.metrics_listen is not None
    assert settings.health_listen is not None
    exposed = dockerfile.only("EXPOSE").text.split()
    assert exposed == [str(settings.metrics_listen.port), str(settings.health_listen.port)]
    assert {settings.metrics_listen.host, settings.health_listen.host} == {"0.0.0.0"}


def test_the_health_check_asks_where_the_service_listens() -> None:
    environ = dockerfile.environment()
    settings = settings_from([], environ)
    assert [str(address) for address in settings.listen] == [target_from(environ)]
    assert dockerfile.only("HEALTHCHECK").words() == ["kvquarry", "status"]


def test_the_socket_has_a_folder_that_the_user_may_write() -> None:
    (address,) = settings_from([], dockerfile.environment()).listen
    folder = str(address).removeprefix("unix:").rpartition("/")[0]
    assert dockerfile.only("RUN").text == f"install -d -o 65532 -g 65532 -m 0770 {folder}"
