"""What is to be known beside figures, as people read it."""

import textwrap
from collections.abc import Iterable, Iterator

_COLUMNS = 80


def note_lines(notes: Iterable[str]) -> Iterator[str]:
    """Each note as a sentence, within 80 columns."""
    for note in notes:
        yield from textwrap.wrap(f"Note: {note}.", _COLUMNS)
