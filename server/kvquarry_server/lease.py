"""How long a pool lives without a stream.

::

    opened               stream opens           stream ends            lapses
      |<-- attach_s at most -->|<-- for ever -->|<------ lease_s ------->|
                               |<----- again, when it opens in time ---->

"Never heard from" and "went silent" are two waits: an engine loads its model between opening its
pool and its first stream.
"""

from typing import Protocol

from kvquarry_server.faults import ServiceError, Superseded


class Stream(Protocol):
    """An attachment's open stream, as far as its lease must know it."""

    def end(self, error: ServiceError) -> None:
        """End the stream with a typed error; harmless when it has ended already."""
        ...


class Lease:
    """An attachment's claim on its pool, kept by an open stream."""

    def __init__(self, *, attach_by: float, lease_s: float) -> None:
        self._lease_s = lease_s
        self._deadline = attach_by
        self._stream: Stream | None = None

    @property
    def is_held(self) -> bool:
        """Whether a stream is open."""
        return self._stream is not None

    def hold(self, stream: Stream) -> None:
        """A stream opened; one that was open before is told that it is superseded."""
        self.end_stream(Superseded("this attachment has opened another stream"))
        self._stream = stream

    def release(self, stream: Stream, *, now: float) -> None:
        """A stream ended; if it was the current one, the wait for the next begins."""
        if self._stream is stream:
            self._stream = None
            self._deadline = now + self._lease_s

    def end_stream(self, error: ServiceError) -> None:
        """Tell the open stream, if there is one, to end."""
        if self._stream is not None:
            self._stream.end(error)

    def remaining_s(self, *, now: float) -> float:
        """Seconds until the pool is dropped; 0 while a stream is open."""
        return 0.0 if self.is_held else max(self._deadline - now, 0.0)

    def has_lapsed(self, *, now: float) -> bool:
        """Whether nobody has come in time."""
        return not self.is_held and now >= self._deadline
