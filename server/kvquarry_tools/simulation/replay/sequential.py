"""Requests one after another, each computed at once and over before the next: no engine, no clock.

What is left is the prefix cache alone, which is what reference answers can be computed for.
"""

from collections.abc import Callable, Iterator

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import Handle
from kvquarry_core.messages import Refusal
from kvquarry_tools.simulation.replay.arrivals import Arrival
from kvquarry_tools.simulation.replay.life import Life, plot_of
from kvquarry_tools.simulation.replay.occupancy import measure
from kvquarry_tools.simulation.replay.pools import ReplayPool
from kvquarry_tools.simulation.replay.tally import Tally

_SAMPLE_EVERY_REQUESTS = 50


def replay_prompts(
    pool: ReplayPool,
    checkpoints: Checkpoints,
    arrivals: Iterator[Arrival],
    on_done: Callable[[int], None],
) -> Tally:
    """Run all prompts; ``on_done`` hears how many are."""
    tally = Tally()
    for serial, arrival in enumerate(arrivals):
        pool.begin_step()
        _compute(pool, checkpoints, Handle(serial), arrival, tally)
        tally.num_steps += 1
        on_done(serial + 1)
    return tally


def _compute(
    pool: ReplayPool, checkpoints: Checkpoints, handle: Handle, arrival: Arrival, tally: Tally
) -> None:
    num_tokens, serial = arrival.num_tokens, tally.num_steps
    answer = pool.admit(arrival.ask(handle, num_tokens))
    if isinstance(answer, Refusal):
        tally.num_refused += 1
        return
    tally.note_admission(arrival, answer)
    life = Life(pool, plot_of(arrival, handle, checkpoints, answer), answer)
    if life.advance(num_tokens):
        tally.num_finished += 1
    else:
        tally.num_shortages += 1
        tally.num_refused += 1
    if serial % _SAMPLE_EVERY_REQUESTS == 0:
        num_empty = -num_tokens % pool.plan.hash_tokens
        tally.samples.append(measure(pool.parts, num_empty, arrival.request.arrival_ms / 1e3))
    pool.free(handle)
