"""``inproc:``: the same core in the engine's own process, without a wire."""

import itertools
import time
from collections.abc import Callable, Sequence

from kvquarry_client.ledger import Eviction
from kvquarry_core.books import digest_of_pool
from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import BlockId, GroupId, Handle
from kvquarry_core.luxury import FreeMemory
from kvquarry_core.messages import Answer, Ask, FullRows
from kvquarry_core.observer import EvictionLog, UnheardLog
from kvquarry_core.plan import Plan
from kvquarry_core.policies import BUILT_IN, Policies, PolicyNames
from kvquarry_core.pool import Pool
from kvquarry_core.slot_use import SlotUse, slot_use_of
from kvquarry_core.usage import usage_of
from kvquarry_core.work import TOKENS, Work
from kvquarry_core.worker_layout import LayerView, check_worker

_numbers = itertools.count(1)
_pools: dict[str, "InprocLedger"] = {}


def open_inproc(
    plan: Plan,
    policies: Policies | None = None,
    work: Work = TOKENS,
    *,
    hears_evictions: bool = True,
) -> tuple[str, "InprocLedger"]:
    """A pool of this process, by a name of its own."""
    pool_id = f"inproc-{next(_numbers)}"
    _pools[pool_id] = InprocLedger(plan, policies, work, hears_evictions=hears_evictions)
    return pool_id, _pools[pool_id]


def register_inproc_worker(pool_id: str, views: Sequence[LayerView], buffer_bytes: int) -> None:
    """Register the worker of this process; see ``registration.register_worker``.

    Raises:
        UsageError: ``LAYOUT_MISMATCH``, naming what differs.
    """
    ledger = _pools[pool_id]
    check_worker(ledger.pool.plan, views, buffer_bytes)
    ledger.has_worker = True


class InprocLedger:
    """A :class:`~kvquarry_client.ledger.Ledger` that calls a pool of its own."""

    def __init__(
        self,
        plan: Plan,
        policies: Policies | None = None,
        work: Work = TOKENS,
        *,
        hears_evictions: bool = True,
    ) -> None:
        self.num_exchanges = 0
        self.has_worker = False
        self._count_empty_slots: Callable[[], Sequence[int]] = tuple
        self._log = EvictionLog() if hears_evictions else UnheardLog()
        nothing = [0] * len(plan.classes)
        self._free_memory = FreeMemory(nothing, 0, nothing)
        chosen = policies or BUILT_IN.make(PolicyNames())
        self.pool = Pool(
            plan,
            placement=chosen.placement,
            eviction=chosen.eviction,
            relocation=chosen.relocation,
            observer=self._log,
            pin_cap=chosen.pin_cap,
            work=work,
        )

    def ask(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask`."""
        if not self.has_worker:
            raise UsageError(
                Reason.WORKERS_NOT_REGISTERED,
                "no block before the worker has registered its tensors",
            )
        self.num_exchanges += 1
        self.pool.note_time(time.monotonic())
        answers = [self.pool.answer(ask) for ask in asks]
        self._free_memory = self.pool.store.free_memory()
        return answers

    def ask_first(self, asks: Sequence[Ask]) -> list[Answer]:
        """See :meth:`Ledger.ask_first`; here nothing is waiting."""
        return self.ask(asks)

    def reset_cache(self) -> bool:
        """See :meth:`Ledger.reset_cache`."""
        self.num_exchanges += 1
        done = self.pool.reset_cache()
        self._free_memory = self.pool.store.free_memory()
        return done

    def unpin(self, pin_id: str) -> None:
        """See :meth:`Ledger.unpin`."""
        self.pool.unpin(pin_id)

    def take(self, handle: Handle, group: GroupId, num_blocks: int) -> None:
        """See :meth:`Ledger.take`."""
        self.pool.take(handle, group, num_blocks)

    def settle(self, handle: Handle) -> None:
        """See :meth:`Ledger.settle`."""
        self.pool.settle(handle)

    def give_back(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """See :meth:`Ledger.give_back`."""
        self.pool.give_back(group, blocks)

    def commit(self, rows: FullRows) -> None:
        """See :meth:`Ledger.commit`."""
        self.pool.commit_rows((rows,))

    def drop(self, handle: Handle, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """See :meth:`Ledger.drop`."""
        self.pool.drop_blocks(handle, group, blocks)

    def free(self, handle: Handle) -> None:
        """See :meth:`Ledger.free`."""
        self.pool.free(handle)

    def begin_step(self) -> None:
        """See :meth:`Ledger.begin_step`."""
        self.pool.begin_step()

    def forget(self, group: GroupId, blocks: Sequence[BlockId]) -> None:
        """See :meth:`Ledger.forget`."""
        self.pool.forget(group, blocks)

    def flush(self) -> None:
        """See :meth:`Ledger.flush`; nothing ever waits here."""

    def end_step(self) -> None:
        """See :meth:`Ledger.end_step`."""

    def tell_empty_slots(self, count: Callable[[], Sequence[int]]) -> None:
        """See :meth:`Ledger.tell_empty_slots`; nothing is sent here, so it is asked when needed."""
        self._count_empty_slots = count

    def slot_use(self) -> SlotUse:
        """How much of the blocks in use is written, now."""
        return slot_use_of(self.pool, self._count_empty_slots())

    def compare_books(self, digest: bytes) -> None:
        """See :meth:`Ledger.compare_books`."""
        if digest_of_pool(self.pool) != digest:
            raise UsageError(
                Reason.BOOKS_DIFFER, "shadow and pool do not agree on who holds what: a bug of ours"
            )

    def free_memory(self) -> FreeMemory:
        """See :meth:`Ledger.free_memory`; as it was with the last answer, as over a wire."""
        return self._free_memory

    def used_fraction(self) -> float:
        """See :meth:`Ledger.used_fraction`."""
        usage = usage_of(self.pool)
        return usage.used_bytes / usage.usable_bytes

    def take_evictions(self) -> list[Eviction]:
        """See :meth:`Ledger.take_evictions`."""
        return [Eviction(*one) for one in self._log.drain(self.pool.store.index)]

    def close(self) -> None:
        """See :meth:`Ledger.close`; the pool goes with the process."""
