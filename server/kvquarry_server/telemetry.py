"""Who counts what the service does, call by call; a null object where nobody does."""

from typing import Protocol


class Telemetry(Protocol):
    """Told of what cannot be read off the pools."""

    def refused(self, method: str, reason: str) -> None:
        """A call, or an operation inside one, was refused."""
        ...

    def applied_batch(self, seconds: float) -> None:
        """A batch was read, applied and answered."""
        ...


class _Nobody:
    def refused(self, method: str, reason: str) -> None:
        pass

    def applied_batch(self, seconds: float) -> None:
        pass


NULL_TELEMETRY: Telemetry = _Nobody()
