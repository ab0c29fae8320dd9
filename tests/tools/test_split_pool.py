"""Two pools that answer as one: hits are what both have, and neither lends to the other."""

import pytest

from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import GroupId, Handle, KindId
from kvquarry_core.messages import Admission, Refusal
from kvquarry_core.plan import make_plan
from kvquarry_core.retention import Landmarks
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.simulation.checkpoints import checkpoints
from kvquarry_tools.simulation.replay.arrivals import Arrival, arrivals
from kvquarry_tools.simulation.replay.engine import EngineLimits, ReplayEngine
from kvquarry_tools.simulation.replay.life import Life, Plot
from kvquarry_tools.simulation.replay.split_pool import SplitPool
from tests.tools.simulation.models import attention, states
from tests.tools.simulation.traces import request

MEMORY = 40_000
EVERY: Checkpoints = checkpoints("every-512", 512)


def split_pool(token_share: float = 0.5) -> SplitPool:
    return SplitPool(make_plan([states(), attention()], MEMORY), MEMORY, token_share)


def run(pool: SplitPool, handle: int, units: str) -> Admission | Refusal:
    """Compute a prompt and free it."""
    pool.begin_step()
    (arrival,) = arrivals([request(units, more_tokens=1)], 512)
    answer = pool.admit(arrival.ask(Handle(handle), arrival.num_tokens))
    if isinstance(answer, Admission):
        life = Life(pool, plot(handle, arrival), answer)
        assert life.advance(arrival.num_tokens)
        pool.free(Handle(handle))
    return answer


def plot(handle: int, arrival: Arrival) -> Plot:
    return Plot(Handle(handle), arrival.names, EVERY, Landmarks())


def hit_tokens(answer: Admission | Refusal) -> int:
    assert isinstance(answer, Admission)
    return answer.hit_tokens


def test_a_hit_needs_both_parts() -> None:
    pool = split_pool()
    assert hit_tokens(run(pool, 1, "abc")) == 0
    assert hit_tokens(run(pool, 2, "abc")) == 1536
    of_states = pool.parts[0].store.index
    for commitment in of_states.commitments(KindId(0))[1:]:
        pool.parts[0].forget(GroupId(0), commitment.row)
    answer = run(pool, 3, "abc")
    assert isinstance(answer, Admission)
    assert (answer.hit_tokens, answer.longest_tokens) == (512, 1536)


def test_states_never_take_memory_of_attention() -> None:
    pool = split_pool(token_share=0.8)
    for handle in range(40):
        run(pool, handle, chr(97 + handle % 26) + "xyz")
    of_states, of_tokens = pool.parts
    assert sum(of_states.store.num_evictions) > 0
    assert of_states.plan.pool_bytes + of_tokens.plan.pool_bytes <= MEMORY


def test_what_one_part_refuses_leaves_nothing_in_the_other() -> None:
    pool = split_pool(token_share=0.85)
    assert isinstance(run(pool, 1, "a" * 90), Refusal)
    assert not any(part.requests for part in pool.parts)


def test_concurrent_requests_end_and_leave_nothing() -> None:
    pool = split_pool(token_share=0.6)
    trace = [request("ab" + chr(99 + serial % 9), num_output_tokens=900) for serial in range(30)]
    engine = ReplayEngine(
        pool, EVERY, EngineLimits(max_num_batched_tokens=900), arrivals(trace, 512)
    )
    tally = engine.run(lambda _: None)
    assert tally.num_finished == len(trace)
    assert not any(part.requests or any(part.store.num_granted) for part in pool.parts)


def test_memory_too_small_for_a_part_is_refused() -> None:
    with pytest.raises(
        InvalidOption, match=r"--memory .* is too small .* static makes of 1% of it"
    ):
        split_pool(token_share=0.99)
