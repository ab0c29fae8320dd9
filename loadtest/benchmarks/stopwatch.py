"""Times the parts of an operation, and counts the CPU that the timed parts took."""

import time


class Stopwatch:
    """Laps by name, in seconds; what happens between :meth:`stop` and :meth:`start` is not timed.

    CPU is the calling thread's within the timed parts, plus all that other threads took at any
    time: the ones that send and receive work while nobody watches.
    """

    def __init__(self) -> None:
        self.laps: dict[str, list[float]] = {}
        self._timed_cpu_s = 0.0
        self._first_process_s = time.process_time()
        self._first_thread_s = time.thread_time()
        self._started_cpu_s = 0.0
        self._started = 0.0
        self._last = 0.0

    def start(self) -> None:
        """An operation begins."""
        self._started_cpu_s = time.thread_time()
        self._started = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """A part of it ends, the next begins."""
        now = time.perf_counter()
        self.laps.setdefault(name, []).append(now - self._last)
        self._last = now

    def since_start(self, name: str) -> None:
        """What all parts took until the last lap."""
        self.laps.setdefault(name, []).append(self._last - self._started)

    def stop(self) -> None:
        """The operation is over."""
        self._timed_cpu_s += time.thread_time() - self._started_cpu_s

    def cpu_s(self) -> float:
        """CPU seconds of the operations until now."""
        others = (time.process_time() - self._first_process_s) - (
            time.thread_time() - self._first_thread_s
        )
        return self._timed_cpu_s + max(others, 0.0)
