"""Says what is going on: a moving line on a terminal, one line after another elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

Say = Callable[[str], None]
"""Tells how far a step has come."""

_QUIET_S: Final = 3.0


class Progress(Protocol):
    """Where the steps of the demo are announced."""

    def step(self, title: str) -> AbstractContextManager[Say]:
        """Announce a step; its time is shown when it has ended."""
        ...


class LiveProgress:
    """A line that moves while a step runs, and stays with the step's time when it has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Say]:
        """Announce a step; its time is shown when it has ended."""
        begun = time.monotonic()
        columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with RichProgress(*columns, console=self._console, transient=True) as moving:
            task = moving.add_task(title)
            yield lambda text: moving.update(task, description=f"{title}: {text}")
        self._console.print(f"{time.monotonic() - begun:6.1f} s  {title}", highlight=False)


class LineProgress:
    """Plain lines, for logs and pipes; at most one in three seconds within a step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._last_line = self._begun

    @contextmanager
    def step(self, title: str) -> Iterator[Say]:
        """Announce a step; its time is shown when it has ended."""
        begun = time.monotonic()
        self._line(title)
        yield lambda text: self._sometimes(f"{title}: {text}")
        self._line(f"{title}: done in {time.monotonic() - begun:.1f} s")

    def _sometimes(self, text: str) -> None:
        if time.monotonic() - self._last_line >= _QUIET_S:
            self._line(text)

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        elapsed_s = self._last_line - self._begun
        self._console.print(
            f"{elapsed_s:6.1f} s  {text}", markup=False, highlight=False, soft_wrap=True
        )


def progress_on(console: Console) -> Progress:
    """The kind of progress that suits where the console writes to."""
    return LiveProgress(console) if console.is_terminal else LineProgress(console)
