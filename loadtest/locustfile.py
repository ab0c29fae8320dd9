"""Load on a running service: every user is an engine with a pool of its own. See README.md."""

from grpc.experimental import gevent as grpc_gevent  # type: ignore[attr-defined]  # not in stubs

grpc_gevent.init_gevent()  # before any other object of gRPC, or the first call hangs for ever

from locust import events  # noqa: E402
from locust.env import Environment  # noqa: E402

from loadtest.engine_user import Engine  # noqa: E402

__all__ = ["Engine"]


@events.init.add_listener  # type: ignore[untyped-decorator]  # locust has no types for it
def refuse_to_run_without_bounds(environment: Environment, **_: object) -> None:
    """A load without an end is forgotten and goes on."""
    options = environment.parsed_options
    if options is not None and not (options.headless and options.run_time and options.host):
        raise SystemExit("say --headless, --run-time and --host, or --config loadtest/locust.conf")
