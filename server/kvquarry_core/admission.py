"""Letting a request in, step by step.

::

    is its hit written?          no: refused until the next step
    must all of it fit?          it does not: refused, for now or for ever
    does its first chunk fit?    a shorter one may; not even one token: refused
    touch, promise, grant        from here on nothing fails
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from kvquarry_core.concession import Concession
from kvquarry_core.coordinator import Hit
from kvquarry_core.evacuation import NO_EVACUATION, Evacuation
from kvquarry_core.gate import Gate
from kvquarry_core.granting import Granter
from kvquarry_core.messages import Admission, AdmitRequest, Refusal, RefusalCause
from kvquarry_core.promise import Promise
from kvquarry_core.running import RunningRequests
from kvquarry_core.sharing import Sharing
from kvquarry_core.sizing import Sizing
from kvquarry_core.touched import Touched


@dataclass(frozen=True, slots=True)
class _Entry:
    """A request at the door.

    Attributes:
        request: What it asks for.
        hit: What it builds on.
        touched: The blocks of its hit, by size class.
        promise: What it is owed once it is in.
        concession: Pins that give way if it gets in; None for none.
    """

    request: AdmitRequest
    hit: Hit
    touched: Touched
    promise: Promise
    concession: Concession | None


class Admitter:
    """Lets requests in as far as the gate allows."""

    def __init__(
        self,
        requests: RunningRequests,
        sizing: Sizing,
        gate: Gate,
        granter: Granter,
        sharing: Sharing,
    ) -> None:
        self._plan = sizing.plan
        self._requests = requests
        self._sizing = sizing
        self._gate = gate
        self._granter = granter
        self._sharing = sharing

    def admit(
        self, hit: Hit, request: AdmitRequest, concession: Concession | None = None
    ) -> Admission | Refusal:
        """Admit a request that builds on a hit, or say why not and change nothing.

        With a concession, in the room that there is once it is made.
        """
        if not self._sharing.is_written(hit):
            return Refusal(RefusalCause.SAME_STEP, hit.num_tokens, hit.longest_tokens)
        promise = self._sizing.promise(request, hit.num_tokens)
        entry = _Entry(request, hit, self._sizing.touched(hit), promise, concession)
        if not request.must_fit_tokens:
            return self._admit_first_chunk(entry, NO_EVACUATION, ())
        demand = self._sizing.with_kept_free(self._plan.by_class(promise.room), request)
        evacuation = self._way(demand, entry)
        if evacuation is not None:
            return self._admit_first_chunk(entry, evacuation, demand)
        if self._sizing.could_ever_hold_whole(request, hit):
            return self._gate.shortage(demand, hit)
        return self._gate.never(self._sizing.whole_sequence(request, 0), hit)

    def _admit_first_chunk(
        self, entry: _Entry, evacuation: Evacuation, room: Sequence[int]
    ) -> Admission | Refusal:
        """With as much of the first chunk as there is room for; the rest of a promise is owed.

        ``room`` are blocks by class that are known to fit, if any are.
        """
        demand: list[int] = []
        for wanted in self._sizing.first_chunks(entry.request, entry.hit):
            demand = self._plan.by_class(wanted)
            is_within = bool(room) and all(map(operator.le, demand, room))
            if is_within or self._fits(demand, entry):
                return self._let_in(entry, wanted, evacuation)
        if self._plan.could_hold(self._sizing.first_token(entry.request, entry.hit)):
            return self._gate.shortage(demand, entry.hit)
        return self._gate.never(demand, entry.hit)

    def _fits(self, demand: Sequence[int], entry: _Entry) -> bool:
        return (entry.concession or self._gate).fits(demand, entry.touched)

    def _way(self, demand: Sequence[int], entry: _Entry) -> Evacuation | None:
        """What to move: nothing beside a concession, which is made where moving was of no use."""
        if entry.concession is None:
            return self._gate.way(demand, entry.touched)
        return NO_EVACUATION if entry.concession.fits(demand, entry.touched) else None

    def _let_in(self, entry: _Entry, wanted: Sequence[int], evacuation: Evacuation) -> Admission:
        """All that was asked before said yes."""
        request, hit, record = entry.request, entry.hit, self._requests.new_record()
        self._sharing.touch(hit, record)
        if entry.concession is not None:
            entry.concession.carry_out()
        record.priority = request.priority
        held = tuple(list(blocks) for blocks in record.held)
        record.promise = entry.promise
        record.query_tokens, record.hit_tokens = request.num_tokens, hit.num_tokens
        self._requests.add(request.handle, record)
        grant = self._granter.grant(record, wanted, evacuation)
        return Admission(hit.num_tokens, hit.longest_tokens, held, grant)
