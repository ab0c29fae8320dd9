"""Streams that have not said hello: they belong to nobody, so nobody's limits bound them."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvquarry_server.faults import TooManyStrangers


class Strangers:
    """Counts them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._num_open = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """A stream that is to say hello inside.

        Raises:
            TooManyStrangers: As many as the service puts up with are waited for already.
        """
        if self._num_open >= self._most:
            raise TooManyStrangers(
                f"{self._most} streams are open that have not said hello; those that stay silent "
                "are ended within seconds: try again"
            )
        self._num_open += 1
        try:
            yield
        finally:
            self._num_open -= 1
