"""What to say of memory that holds no request of a trace at all."""

from collections.abc import Callable, Sequence
from functools import partial

from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.planning.sizes import count, memory
from kvquarry_tools.simulation.least_memory import least_memory
from kvquarry_tools.simulation.traces import TraceRequest


def whole_trace_refused(
    trace: Sequence[TraceRequest],
    holds: Callable[[TraceRequest, int], bool],
    memory_bytes: int,
) -> InvalidOption:
    """The error, with the memory that the least and the largest request need.

    Args:
        trace: The requests.
        holds: Whether a request runs to its end in so many bytes.
        memory_bytes: So many hold none of them.
    """
    by_size = sorted(trace, key=lambda one: one.num_prompt_tokens + one.num_output_tokens)
    ends = (by_size[0], by_size[-1])
    least, largest = (least_memory(partial(holds, one), memory_bytes) for one in ends)
    return InvalidOption(
        f"--memory is too small: it holds none of the {count(len(trace))} requests; the smallest "
        f"needs {_amount(least)}, the largest {_amount(largest)}"
    )


def _amount(num_bytes: int | None) -> str:
    return "more than there is" if num_bytes is None else memory(num_bytes)
