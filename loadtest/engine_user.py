"""A locust user that is an engine with a pool of its own."""

import itertools
import logging
import os
from collections.abc import Callable
from typing import TypeVar

import gevent
from gevent import Greenlet
from locust import User, constant_pacing, task
from locust.env import Environment
from locust.exception import StopUser

from kvquarry_client.engine import OpenedPool, ledger_of, open_pool
from kvquarry_client.errors import ClientError
from kvquarry_client.registration import WorkerMemory, register_worker
from kvquarry_client.shadow import Shadow
from kvquarry_client.target import parse_target
from kvquarry_core.worker_layout import planned_views
from loadtest.engine_session import GROUPS, POOL_BYTES, EngineSession, shadow_settings
from loadtest.timed_ledger import TimedLedger, timed
from loadtest.traffic import Traffic

_CONNECT_TIMEOUT_S = 5.0
_STEP_S = 0.02  # a decode step of a mid-sized model
_seeds = itertools.count(1)
_Result = TypeVar("_Result")
logger = logging.getLogger(__name__)


class Engine(User):
    """An engine that always has requests waiting."""

    wait_time = constant_pacing(_STEP_S)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._target = str(self.host)
        self._ledger: TimedLedger | None = None
        self._session: EngineSession | None = None
        self._step: Greenlet | None = None

    @task
    def step(self) -> None:
        """One scheduler step, with as many exchanges as it needs.

        In a greenlet of its own: locust may kill a user at any moment, and a killed exchange
        leaves its stream unusable.
        """
        if self._session is None:
            self._session = self._start_session()
        self._step = gevent.spawn(self._timed, "step", self._session.step)
        self._step.get()

    def on_stop(self) -> None:
        """Let the step end, free everything and give the pool up."""
        if self._step is not None:
            self._step.join()
        try:
            if self._session is not None:
                self._timed("finish", self._session.finish)
        finally:
            if self._ledger is not None:
                self._ledger.close()

    def _start_session(self) -> EngineSession:
        """Open a pool, register its one worker, and queue requests.

        Not in locust's ``on_start``, whose failures it logs with their whole traceback.
        """
        seed = next(_seeds)
        opened = self._timed("open pool", lambda: self._open(seed))
        self._timed("register worker", lambda: self._register(opened))
        self._ledger = TimedLedger(ledger_of(opened.pool_id), self._observe)
        shadow = Shadow(opened.plan, self._ledger, shadow_settings(opened.plan))
        requests = Traffic(seed, opened.plan.hash_tokens).requests()
        return EngineSession(shadow, requests)

    def _open(self, seed: int) -> OpenedPool:
        return open_pool(
            self._target,
            engine=f"loadtest-{os.getpid()}-{seed}",
            groups=GROUPS,
            pool_bytes=POOL_BYTES,
            num_workers=1,
            model="made up",
            connect_timeout_s=_CONNECT_TIMEOUT_S,
            hears_evictions=False,
        )

    def _register(self, opened: OpenedPool) -> None:
        memory = WorkerMemory(
            rank=0,
            num_workers=1,
            device="none",
            buffer_bytes=opened.plan.pool_bytes,
            views=tuple(planned_views(opened.plan)),
            digest=b"no tensors",
        )
        register_worker(
            parse_target(self._target),
            pool_id=opened.pool_id,
            incarnation=opened.incarnation,
            memory=memory,
            timeout_s=_CONNECT_TIMEOUT_S,
        )

    def _timed(self, name: str, call: Callable[[], _Result]) -> _Result:
        """Call and report; after a failure this engine is of no use any more."""
        try:
            return timed(name, call, self._observe)
        except ClientError as error:
            # An answer, or the lack of one, that locust's user can do something about.
            logger.error("%s failed: %s", name, error)
            raise StopUser from error
        except Exception as error:
            logger.exception("%s failed", name)
            raise StopUser from error

    def _observe(self, name: str, seconds: float, error: Exception | None) -> None:
        """Report to locust, in microseconds: it rounds to whole milliseconds."""
        self.environment.events.request.fire(
            request_type="us",
            name=name,
            response_time=seconds * 1e6,
            response_length=0,
            exception=error,
        )
