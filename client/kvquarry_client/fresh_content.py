"""What became findable lately: whoever was looked up before could hit more by now."""

from collections.abc import Sequence

from kvquarry_core.ids import BlockHash


class FreshContent:
    """Content that was committed in this step and the last, by the first name of each run of rows.

    Hashes are chained, and a request's rows are committed in their order: whose text has the
    content of any of them has that of the first.
    """

    def __init__(self) -> None:
        self._of_this_step: set[BlockHash] = set()
        self._of_last_step: set[BlockHash] = set()

    def __len__(self) -> int:
        """Names that are remembered."""
        return len(self._of_this_step) + len(self._of_last_step)

    def begin_step(self) -> None:
        """What was committed before the last step is not fresh any more."""
        self._of_last_step, self._of_this_step = self._of_this_step, set()

    def note(self, names: Sequence[BlockHash]) -> None:
        """Rows were committed under these names."""
        self._of_this_step.add(names[0])

    def is_in(self, hashes: Sequence[BlockHash]) -> bool:
        """Whether a text has any of it."""
        names = (self._of_this_step, self._of_last_step)
        return not all(one.isdisjoint(hashes) for one in names)
