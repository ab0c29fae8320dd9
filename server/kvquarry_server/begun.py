"""A call that begins now and is waited for later.

gRPC hands a message over through a thread of its own and a round of the loop. A stream that asks
for its next message only when it is done with the last one waits for all of that again, though the
message may have been there all the time::

    asked for afterwards    | work |......handed over......| work |
    asked for before        | work |.| work |

A task would begin a round later, and end a round before whoever waits for it goes on. So a
coroutine is begun by hand here, up to where it first waits, as an eager task of Python 3.12 is.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Begun(Generic[Result]):
    """Waited for once at most, by a task of the loop it was begun in, and closed in any case."""

    def __init__(self, call: Coroutine[Any, Any, Result]) -> None:
        self._call = call
        self._waits_for: object = None
        self._is_over = False
        self._is_closed = False
        # What came of it: one or the other.
        self._failure: Exception | None = None
        self._result: Any = None
        self._go_on(call.send, None)

    @types.coroutine
    def result(self) -> Generator[Any, Any, Result]:
        """What the call returns; whatever it raises is raised here.

        Also a call that is over takes a round of the loop, so that others are heard in between.
        """
        if self._is_over:
            yield
        while not self._is_over:
            try:
                sent = yield self._waits_for
            except BaseException as error:  # a cancellation, mostly: the call deals with it
                self._go_on(self._call.throw, error)
            else:
                self._go_on(self._call.send, sent)
        if self._failure is not None:
            raise self._failure
        result: Result = self._result
        return result

    def close(self) -> None:
        """Nobody waits for it any more; closing a call that is over is harmless.

        It is brought to its end all the same, when that comes: gRPC frees a message where it is
        read, and only there.
        """
        if not self._is_closed:
            self._is_closed = True
            self._leave_to_itself()

    def _leave_to_itself(self) -> None:
        if isinstance(self._waits_for, asyncio.Future) and not self._is_over:
            self._waits_for.add_done_callback(self._go_on_alone)
        else:
            self._call.close()

    def _go_on_alone(self, _: "asyncio.Future[object]") -> None:
        with suppress(asyncio.CancelledError):
            self._go_on(self._call.send, None)
            self._leave_to_itself()

    def _go_on(self, resume: Callable[..., object], what: object) -> None:
        """Up to where it waits again or to its end; a cancellation that ends it is raised."""
        try:
            self._waits_for = resume(what)
        except StopIteration as end:
            self._is_over, self._result = True, end.value
        except Exception as failure:
            self._is_over, self._failure = True, failure
