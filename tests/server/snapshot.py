"""Everything a pool knows, to be compared before and after."""

from dataclasses import asdict

from kvquarry_core.ids import KindId
from kvquarry_core.pool import Pool
from kvquarry_core.usage import usage_of


def snapshot(pool: Pool) -> dict[str, object]:
    """Requests, hashes, counts and counters; the order of victims is left out."""
    return {
        "requests": {handle: asdict(record) for handle, record in pool.requests.items()},
        "findable": [
            (commitment.kind, commitment.block_hash, commitment.row)
            for kind in range(len(pool.plan.kinds))
            for commitment in pool.store.index.commitments(KindId(kind))
        ],
        "pins": {pin.pin_id: (pin.held, pin.deadline_s) for pin in pool.pins},
        "usage": usage_of(pool),
        "totals": asdict(pool.totals),
        "evictions": list(pool.store.num_evictions),
    }
