"""The workers of an engine: each must hold the memory that the plan describes, and all the same.

Nothing is handed out before all ranks agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.plan import Plan
from kvquarry_core.worker_layout import LayerView, check_worker
from kvquarry_server.faults import WorkerMismatch


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker process says of itself.

    Attributes:
        rank: Its number among the engine's workers.
        num_workers: How many there are, in its opinion.
        device: Its device's name, for people.
        buffer_bytes: Memory it has for its copy of the pool.
        layers: Where its layers' blocks lie.
        digest: Of offset, shape, stride and dtype of every layer's tensors.
    """

    rank: int
    num_workers: int
    device: str
    buffer_bytes: int
    layers: tuple[LayerView, ...]
    digest: bytes


class Roster:
    """The workers of one engine that have registered."""

    def __init__(self, plan: Plan, num_workers: int) -> None:
        self.num_workers = num_workers
        self._plan = plan
        self._workers: dict[int, Worker] = {}

    @property
    def workers(self) -> list[Worker]:
        """The registered workers, by rank."""
        return [self._workers[rank] for rank in sorted(self._workers)]

    @property
    def is_complete(self) -> bool:
        """Whether all ranks have registered, and so agree."""
        return len(self._workers) == self.num_workers

    def register(self, worker: Worker) -> None:
        """Add a worker; one that says again what it said before changes nothing.

        Raises:
            UsageError: ``LAYOUT_MISMATCH``: its tensors contradict the plan.
            WorkerMismatch: It contradicts the engine or another worker.
        """
        self._check_rank(worker)
        if not worker.layers:
            raise UsageError(
                Reason.LAYOUT_MISMATCH,
                f"rank {worker.rank} lists no layer; list all that have blocks",
            )
        check_worker(self._plan, worker.layers, worker.buffer_bytes)
        self._check_agreement(worker)
        # All agree, so one copy of what may be thousands of layers is enough.
        for other in self._workers.values():
            worker = replace(worker, layers=other.layers)
            break
        self._workers[worker.rank] = worker

    def check_complete(self) -> None:
        """Raise unless all workers have registered.

        Raises:
            UsageError: ``WORKERS_NOT_REGISTERED``, with the ranks that are missing.
        """
        if not self.is_complete:
            missing = sorted(set(range(self.num_workers)) - set(self._workers))
            raise UsageError(
                Reason.WORKERS_NOT_REGISTERED,
                f"{len(missing)} of {self.num_workers} workers have not registered their memory "
                f"yet (ranks {_some(missing)}); no block is handed out before",
            )

    def _check_rank(self, worker: Worker) -> None:
        if worker.num_workers != self.num_workers:
            raise WorkerMismatch(
                f"rank {worker.rank} counts {worker.num_workers} workers, but the engine opened "
                f"its pool for {self.num_workers}; give both the same number"
            )
        if worker.rank >= self.num_workers:
            raise WorkerMismatch(
                f"ranks run from 0 to {self.num_workers - 1}, not {worker.rank}; number the "
                "workers from 0"
            )

    def _check_agreement(self, worker: Worker) -> None:
        before = self._workers.get(worker.rank)
        if before is not None and before != worker:
            raise WorkerMismatch(
                f"rank {worker.rank} registered other memory before; open the pool again when "
                "workers were restarted"
            )
        for other in self._workers.values():
            if (other.digest, other.layers) != (worker.digest, worker.layers):
                raise WorkerMismatch(
                    f"ranks {other.rank} and {worker.rank} built different tensors (digests "
                    f"{other.digest.hex()} and {worker.digest.hex()}); run the same version, "
                    "model and dtype on all workers"
                )


def _some(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return shown if len(ranks) <= 8 else f"{shown}, ..."
