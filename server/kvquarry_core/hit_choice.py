"""Which hit a request builds on: mostly the longest, and none where that is its only way in."""

import itertools

from kvquarry_core.admission import Admitter
from kvquarry_core.coordinator import Coordinator, Hit
from kvquarry_core.messages import Admission, AdmitRequest, Refusal, RefusalCause
from kvquarry_core.pins import Pins
from kvquarry_core.prefix_index import PrefixIndex
from kvquarry_core.running import RunningRequests


class HitChoice:
    """Looks requests up and has them admitted."""

    def __init__(
        self,
        index: PrefixIndex,
        coordinator: Coordinator,
        requests: RunningRequests,
        pins: Pins,
        admitter: Admitter,
    ) -> None:
        self._index = index
        self._coordinator = coordinator
        self._requests = requests
        self._pins = pins
        self._admitter = admitter

    def admit(self, request: AdmitRequest) -> Admission | Refusal:
        """Admit a request on its longest hit, or say why not and change nothing."""
        hit = self._coordinator.longest_hit(self._index, request.hashes, request.max_hit_tokens)
        answer = self._admitter.admit(hit, request)
        if _is_shortage(answer) and not self._requests:
            # Nobody will ever free anything.
            answer = self._admit_at_a_price(hit, request) or answer
        return answer

    def _admit_at_a_price(self, hit: Hit, request: AdmitRequest) -> Admission | None:
        """Better to compute a prefix again than to wait for a block beside it, or for a pin."""
        no_hit = self._coordinator.no_hit
        hits = (hit, no_hit) if hit.num_tokens else (no_hit,)
        for concession in itertools.chain((None,), self._pins.concessions()):
            for one in hits:
                answer = self._admitter.admit(one, request, concession)
                if isinstance(answer, Admission):
                    return answer
        return None


def _is_shortage(answer: Admission | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.cause is RefusalCause.SHORTAGE
