"""What became findable lately: whoever was looked up before could hit more by now."""

from collections.abc import Sequence

from kvquarry_core.ids import BlockHash


class FreshContent:
    """Content that was committed in this step and the last, by the first name of each run of rows.

    Hashes are chained, and a request's rows are committed in their order: whose text has the
    content of any of them has that of the first.
    """

    def __init__(self) -> None:
        #: Runs that were committed so far.
        self.num_runs = 0
        # Which run it was, by name.
        self._of_this_step: dict[BlockHash, int] = {}
        self._of_last_step: dict[BlockHash, int] = {}

    def __len__(self) -> int:
        """Names that are remembered."""
        return len(self._of_this_step) + len(self._of_last_step)

    def begin_step(self) -> None:
        """What was committed before the last step is not fresh any more."""
        self._of_last_step, self._of_this_step = self._of_this_step, {}

    def note(self, names: Sequence[BlockHash]) -> None:
        """Rows were committed under these names."""
        self.num_runs += 1
        self._of_this_step[names[0]] = self.num_runs

    def is_in(self, hashes: Sequence[BlockHash], *, since: int) -> bool:
        """Whether a text has any of what was committed after the first ``since`` runs."""
        if self.num_runs == since:
            return False
        steps = [names for names in (self._of_this_step, self._of_last_step) if names]
        return any(names.get(name, 0) > since for names in steps for name in hashes)
