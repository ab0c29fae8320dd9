"""A progress bar for people: on a terminal's standard error, or nowhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def progress(total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show how many of ``total`` are done; the function that is given out hears the number."""
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        yield lambda _: None
        return
    from tqdm import tqdm  # noqa: PLC0415 - an extra

    with tqdm(total=total, unit=f" {unit}", file=sys.stderr, leave=False) as bar:

        def show(num_done: int) -> None:
            bar.update(max(num_done - bar.n, 0))

        yield show
