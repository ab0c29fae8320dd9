"""A small hybrid engine over a pool in this process, for the shadow's tests."""

from dataclasses import dataclass

from kvquarry_client.inproc import InprocLedger, open_inproc, register_inproc_worker
from kvquarry_client.scheduling import Allocation, ShadowSettings, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.retention import Boundaries, Landmarks
from kvquarry_core.usage import usage_of
from kvquarry_core.worker_layout import planned_views

BLOCK = 4
ATTENTION = GroupSpec(GroupKind.FULL_ATTENTION, BLOCK, 64, 1)
STATE = GroupSpec(GroupKind.RECURRENT_STATE, BLOCK, 160, 1)
HYBRID = (STATE, STATE, ATTENTION)
CHUNK = 64


@dataclass(frozen=True)
class Engine:
    """A shadow and the pool behind it."""

    shadow: Shadow
    ledger: InprocLedger

    def used_bytes(self) -> int:
        return usage_of(self.ledger.pool).used_bytes

    def admit(self, request_id: str, num_tokens: int, content: str = "") -> bool:
        """Look a prompt up, compute it in one chunk, commit it with the state at its end."""
        waiting = prompt(request_id, num_tokens, content)
        hit_tokens = self.shadow.lookup(waiting).hit_tokens
        allocation = Allocation(num_tokens, num_tokens, hit_tokens)
        admitted = self.shadow.allocate_first(waiting, allocation, keep_free=True) is not None
        if admitted:
            self.shadow.commit(request_id, waiting.hashes, num_tokens, Landmarks((num_tokens,)))
        check_integrity(self.ledger.pool)
        return admitted

    def decode(self, request_id: str, num_tokens: int) -> bool:
        """Compute one token more, so that there are ``num_tokens``."""
        request = self.shadow.find(request_id)
        assert request is not None
        done = self.shadow.allocate(request, Allocation(num_tokens, num_tokens, num_tokens - 1))
        check_integrity(self.ledger.pool)
        return done


def engine(
    groups: tuple[GroupSpec, ...] = HYBRID,
    *,
    num_slabs: int = 32,
    keep_free_blocks: tuple[int, ...] = (),
    ahead_tokens: int = 0,
) -> Engine:
    """An engine with room for ``num_slabs`` slabs of the hybrid's size."""
    plan = make_plan(groups, num_slabs * 192)
    pool_id, ledger = open_inproc(plan)
    register_inproc_worker(pool_id, list(planned_views(plan)), plan.pool_bytes)
    settings = ShadowSettings(
        max_grant_tokens=CHUNK,
        lookahead_tokens=0,
        must_fit_whole=True,
        keep_free_blocks=keep_free_blocks,
        checkpoints=Checkpoints(Boundaries(), BLOCK),
        ahead_tokens=ahead_tokens,
        check_steps=1,
    )
    return Engine(Shadow(plan, ledger, settings), ledger)


def prompt(request_id: str, num_tokens: int, content: str = "") -> Waiting:
    """A prompt whose hashes name its content; equal contents share all full blocks."""
    hashes = [
        BlockHash(f"{content or request_id}/{index}".encode())
        for index in range(num_tokens // BLOCK)
    ]
    return Waiting(request_id, hashes, num_tokens)
