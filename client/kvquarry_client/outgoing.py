"""Batches on their way to the pool: numbered when they are sent, and overtaken while they wait."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from kvquarry_client.lasting_stream import LastingStream
from kvquarry_client.outbox import num_that_fit
from kvquarry_client.wire.batches import BatchBuilder
from kvquarry_client.wire.bearing import Gathered, Manners, Texts


class Outgoing:
    """Gathers operations and sends them as numbered batches."""

    def __init__(self, stream: LastingStream, manners: Manners) -> None:
        self.batch = BatchBuilder(manners)
        #: Reads how many slots are empty, by kind.
        self.count_empty_slots: Callable[[], Sequence[int]] = tuple
        #: The pool's when all that was sent is applied; refusals are to be taken off.
        self.revision = 0
        self._stream = stream
        self._last_number = 0
        # Quiet batches since the last that was answered: no earlier one can still wait.
        self._quiet: list[Gathered] = []

    def send(self, *, quiet: bool, behind: Sequence[Gathered] = ()) -> int:
        """Send what was gathered, and more behind it that nobody waits for; the batch's number."""
        self.batch.empty_slots(self.count_empty_slots())
        if not quiet:
            self._quiet.clear()
        gathered = self.batch.finish()
        number = self._number(gathered, quiet=quiet)
        for one in behind:
            one.message.batch.ClearField("empty_slot_counts")
            self._number(one, quiet=True)
        message = gathered.message
        num_along = num_that_fit(message, [one.message for one in behind])
        message.following.extend(one.message.batch for one in behind[:num_along])
        self._stream.send(message)
        for one in behind[num_along:]:
            self._quiet.append(one)
            self._stream.send(one.message)
        if quiet:
            self._quiet.append(gathered)
        return number

    def leave_behind(self, texts: Texts) -> list[Gathered]:
        """Take out the last operations, those that no answer about these texts depends on.

        Also of batches that were sent: gRPC's thread mostly runs when the engine's rests. If a step
        starts among them, that is told ahead as well.
        """
        rest = self.batch.leave_behind(texts)
        behind = [] if rest is None else [rest]
        if not self.batch:
            behind = self._take_back(texts) + behind
        if any(gathered.begins_step() for gathered in behind):
            self.batch.begin_step()
        return behind

    def _take_back(self, texts: Texts) -> list[Gathered]:
        """Of the quiet batches that wait to be sent, the last ones that nobody depends on."""
        first_waiting = max(len(self._quiet) - self._stream.num_waiting, 0)
        waiting = self._quiet[first_waiting:]
        of_no_bearing = takewhile(lambda one: not one.bearing.num_before(texts), waiting[::-1])
        num_taken = self._stream.take_back(sum(1 for _ in of_no_bearing))
        first = len(self._quiet) - num_taken
        taken, self._quiet = self._quiet[first:], self._quiet[:first]
        self._last_number -= num_taken
        self.revision -= sum(map(len, taken))
        return taken

    def _number(self, gathered: Gathered, *, quiet: bool) -> int:
        self._last_number += 1
        self.revision += len(gathered)
        gathered.message.batch.number = self._last_number
        gathered.message.batch.quiet = quiet
        return self._last_number
