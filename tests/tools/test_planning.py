"""What a plan promises is what the core's own pool then holds."""

import pytest

from kvquarry_core.ids import Handle
from kvquarry_core.messages import Admission, AdmitRequest, Grant, Refusal, RefusalCause
from kvquarry_core.plan import GroupKind, make_plan
from kvquarry_core.pool import Pool
from kvquarry_core.reserve import DecodeReserve
from kvquarry_tools.errors import InvalidOption
from kvquarry_tools.models import Serving, find_model
from kvquarry_tools.planning import demand
from kvquarry_tools.planning.pools import (
    MixedPool,
    UniformPool,
    longest_request,
    most_cached_tokens,
    most_held,
    most_requests,
)
from kvquarry_tools.planning.report import REQUEST_TOKENS, Report, make_report

GIB = 2**30
MODELS = [
    "Qwen3.6-35B-A3B",
    "Nemotron-3-Nano-30B-A3B",
    "LFM2-2.6B",
    "Zamba2",
    "Kimi-Linear-48B-A3B",
    "Qwen3-8B",
]
WINDOWED = ["Gemma-4-26B-A4B", "gpt-oss-20b", "Llama-4-Scout"]
PLAIN = Serving()
every_model = pytest.mark.parametrize("name", MODELS)


def report(
    name: str, gib: float, serving: Serving = PLAIN, max_num_seqs: int | None = None
) -> Report:
    return make_report(find_model(name).served(serving), int(gib * GIB), max_num_seqs)


def asked(pool: Pool, handle: int, num_tokens: int) -> AdmitRequest:
    """A whole request with nothing to hit, asked for as an engine asks.

    Beside it stays free what those need that run; its prompt takes several chunks, if it passes a
    block's end at all.
    """
    free = DecodeReserve(pool.plan).blocks(len(pool.requests), int(num_tokens > 16))
    return AdmitRequest(
        Handle(handle),
        (),
        num_tokens,
        0,
        num_tokens,
        must_fit_tokens=num_tokens,
        keep_free_blocks=tuple(free),
    )


def admits(pool: Pool, handle: int, num_tokens: int) -> bool:
    """Whether the core's pool takes it."""
    return isinstance(pool.admit(asked(pool, handle, num_tokens)), Admission)


@pytest.mark.parametrize(
    ("name", "num_tokens"),
    # Whoever is admitted holds more than its window at first.
    [(name, num_tokens) for name in MODELS for num_tokens in (1, 100, 2048)]
    + [("Gemma-4-26B-A4B", num_tokens) for num_tokens in (1, 100, 900)],
)
def test_as_many_requests_are_admitted_as_the_plan_says_and_not_one_more(
    name: str, num_tokens: int
) -> None:
    plan = make_plan(find_model(name).groups(), GIB)
    number = most_requests(MixedPool(plan), num_tokens)
    pool = Pool(plan)
    assert number > 0
    assert all(admits(pool, handle, num_tokens) for handle in range(number))
    assert not admits(pool, number, num_tokens)


@pytest.mark.parametrize(
    ("name", "admitted"),
    [("Qwen3.6-35B-A3B", (278, 183)), ("Nemotron-3-Nano-30B-A3B", (361, 301))],
)
def test_requests_at_once_are_those_that_were_admitted_beside_a_reserve(
    name: str, admitted: tuple[int, int]
) -> None:
    """Measured with the core's pool of 20 GiB, requests of 100 and 2,048 tokens."""
    requests = report(name, 20).mixed_capacity.requests
    assert (requests[100], requests[2048]) == admitted


@every_model
def test_the_longest_request_is_admitted_with_all_the_states_it_may_ever_hold(name: str) -> None:
    plan = make_plan(find_model(name).groups(), GIB)
    longest = longest_request(MixedPool(plan))
    assert longest
    pool = Pool(plan)
    assert admits(pool, 1, longest)
    held, wanted = demand.resident(plan.groups, longest), demand.at_most(plan.groups, longest)
    more = [most - has for most, has in zip(wanted, held, strict=True)]
    assert isinstance(pool.grow(Handle(1), more), Grant)
    assert not MixedPool(plan).holds(demand.at_most(plan.groups, longest + 1))


@every_model
def test_a_request_holds_its_states_once_however_long_it_is(name: str) -> None:
    """C10: states are a request's, not a token's."""
    groups = find_model(name).groups()
    short, long = (demand.resident(groups, num_tokens) for num_tokens in (1, 32768))
    for group, few, many in zip(groups, short, long, strict=True):
        if group.kind is GroupKind.RECURRENT_STATE:
            assert (few, many) == (1, 1)
        else:
            assert (few, many) == (1, 32768 // group.block_tokens)


@every_model
def test_tokens_and_bytes_agree(name: str) -> None:
    """C10: a capacity that was divided by the number of groups would be off by a factor."""
    made = report(name, 20)
    longest = made.mixed_capacity.longest_request_tokens
    assert longest
    served = made.served
    held_bytes = longest * served.bytes_per_token + 3 * served.checkpoint_bytes
    assert 0.97 * made.memory_bytes < held_bytes <= made.memory_bytes


@every_model
def test_requests_and_tokens_agree(name: str) -> None:
    """C10: as many requests as tokens allow, but for the states that each of them holds."""
    capacity = report(name, 20).mixed_capacity
    longest = capacity.longest_request_tokens
    assert longest
    for num_tokens in REQUEST_TOKENS:
        assert capacity.requests[num_tokens] * num_tokens <= longest + 3 * num_tokens


@pytest.mark.parametrize(
    ("name", "windowed"),
    [("gpt-oss-20b", 128), ("Gemma-4-26B-A4B", 1024), ("Llama-4-Scout", 8192)],
)
def test_windows_are_counted_as_far_as_they_reach(name: str, windowed: int) -> None:
    groups = find_model(name).groups()
    for group, few, many, most in zip(
        groups,
        demand.resident(groups, 100),
        demand.resident(groups, 32768),
        demand.at_most(groups, 32768),
        strict=True,
    ):
        if group.window_tokens:
            assert (few, many) == (7, windowed // 16)
            assert many < most <= (windowed + demand.IN_FLIGHT_TOKENS) // 16 + 1
        else:
            assert (few, many, most) == (7, 2048, 2048)


def test_classes_are_numbered_by_name_and_none_is_left_out() -> None:
    """C10: each class's blocks, and what they hold."""
    made = report("Qwen3.6-35B-A3B", 20)
    assert [(one.holds, one.num_groups) for one in made.classes] == [
        ("attention", 1),
        ("states", 3),
    ]
    for one, size_class in zip(made.classes, made.mixed.plan.classes, strict=True):
        assert one.num_blocks == size_class.num_usable_blocks


def test_a_uniform_pool_holds_what_was_measured_of_stock_vllm() -> None:
    """Qwen3-Next-80B in 16 GiB, prompts of so many tokens and 8 decoded, with vLLM 0.32."""
    layout = find_model("Qwen3-Next-80B-A3B").served(Serving()).stock
    pool = UniformPool(layout, 16 * GIB // layout.block_bytes)
    held = [most_requests(pool, num_tokens + 8) for num_tokens in (100, 600, 1000, 4000)]
    assert held == [321, 256, 256, 116]


@pytest.mark.parametrize(
    ("name", "gib", "serving"),
    [(name, gib, PLAIN) for name in MODELS + WINDOWED for gib in (1, 20)]
    + [
        ("Nemotron-3-Ultra-550B-A55B", 20, Serving(tp=2)),
        ("Qwen3.6-27B", 20, Serving(num_speculative_tokens=5)),
        ("Qwen3.6-27B", 20, Serving(kv_dtype="fp8", block_tokens=64)),
    ],
)
def test_there_is_memory_for_no_fewer_requests_than_in_stock_vllms_pool(
    name: str, gib: int, serving: Serving
) -> None:
    """Pools of several size classes then keep some of it free when they admit."""
    made = report(name, gib, serving)
    for num_tokens in REQUEST_TOKENS:
        stock = made.uniform_capacity.requests[num_tokens]
        assert most_held(made.uniform, num_tokens) == stock
        assert most_held(made.mixed, num_tokens) >= stock, num_tokens
        assert made.mixed_capacity.requests[num_tokens] <= most_held(made.mixed, num_tokens)


def test_dense_checkpoints_take_a_state_of_every_group_at_every_boundary() -> None:
    plan = make_plan(find_model("Qwen3.6-35B-A3B").groups(), 20 * GIB)
    num_checkpoints = most_cached_tokens(MixedPool(plan), 16) // 16
    # One state to a slab, and a few slabs for the attention of so few tokens.
    num_attention_slabs = -(-num_checkpoints // plan.classes[0].blocks_per_slab)
    assert num_checkpoints == (plan.num_slabs - 1 - num_attention_slabs) // 3


def test_the_memory_bound_nemotron_is_explained() -> None:
    """74k tokens against 245k, on a large Nemotron at two workers (vllm-project/vllm#46251).

    In 2.2 GiB a worker, stock vLLM with a checkpoint at every block of 8,304 tokens holds 74,736
    tokens. A pool whose checkpoints need not follow its blocks holds 274k with three of them and
    241k with four: 245k leave room for three.
    """
    made = report("Nemotron-3-Ultra-550B-A55B", 2.2, Serving(tp=2))
    assert made.uniform_capacity.cached_tokens[8304] == 74_736 == 9 * 8304
    mixed = made.mixed
    for num_checkpoints, most_tokens in ((1, 340_464), (3, 274_032), (4, 240_816)):
        blocks = [
            num_checkpoints if group.kind is GroupKind.RECURRENT_STATE else most_tokens // 16
            for group in mixed.groups
        ]
        assert mixed.holds(blocks)
        one_more = [
            num_checkpoints if group.kind is GroupKind.RECURRENT_STATE else most_tokens // 16 + 1
            for group in mixed.groups
        ]
        assert not mixed.holds(one_more)


#: Nemotron-3-Nano then has states for 614 requests, and those that stay free beside them.
C11_GIB = 34260 / 1024


def test_more_sequences_than_fit_are_answered_with_what_to_change() -> None:
    """C11: 1,024 sequences asked for, states for 614 there: that is named, and what helps."""
    made = report("Nemotron-3-Nano-30B-A3B", C11_GIB, max_num_seqs=1024)
    limit = made.sequences
    assert limit is not None
    assert (limit.fits, limit.largest) == (False, 614)
    assert limit.memory_bytes is not None
    ample = make_plan(made.served.groups, limit.memory_bytes)
    assert most_requests(MixedPool(ample), 1) >= 1024
    assert limit.memory_bytes < made.memory_bytes * 1024 / limit.largest * 1.05
    assert limit.largest_with_smaller_states is not None
    assert limit.largest_with_smaller_states > 1024


def test_at_run_time_one_request_too_many_is_refused_and_the_pool_lives_on() -> None:
    """C11: nothing is raised, and the next one is let in when one has gone."""
    pool = Pool(report("Nemotron-3-Nano-30B-A3B", C11_GIB).mixed.plan)
    assert all(admits(pool, handle, 1) for handle in range(614))
    refused = pool.admit(asked(pool, 614, 1))
    assert isinstance(refused, Refusal)
    assert refused.cause is RefusalCause.SHORTAGE
    pool.free(Handle(0))
    assert admits(pool, 615, 1)


def test_the_largest_number_of_sequences_fits_and_one_more_does_not() -> None:
    largest = report("Nemotron-3-Nano-30B-A3B", 2).mixed_capacity.max_num_seqs
    for wished, fits in ((largest, True), (largest + 1, False)):
        limit = report("Nemotron-3-Nano-30B-A3B", 2, max_num_seqs=wished).sequences
        assert limit is not None
        assert limit.fits is fits


@pytest.mark.parametrize(
    ("name", "serving", "gib"),
    [
        ("Qwen3.6-27B", PLAIN, 0.1),
        ("Qwen3.6-35B-A3B", PLAIN, 64_880_640 / GIB),
        ("Qwen3.6-35B-A3B", Serving(num_speculative_tokens=400), 20),
        ("Gemma-4-26B-A4B", PLAIN, 0.001),
        ("Qwen3-8B", PLAIN, 0.001),
    ],
)
def test_memory_for_no_request_is_refused_with_the_least_that_is_enough(
    name: str, serving: Serving, gib: float
) -> None:
    with pytest.raises(InvalidOption, match=rf"{name}.*least --memory (\d+)MiB") as refused:
        report(name, gib, serving)
    enough = int(str(refused.value).rpartition("--memory ")[2].partition("MiB")[0])
    made = report(name, enough / 1024, serving)
    assert made.mixed_capacity.longest_request_tokens
    assert made.mixed_capacity.max_num_seqs
    with pytest.raises(InvalidOption):
        report(name, (enough - 1) / 1024, serving)


def test_a_request_that_no_worker_can_hold_is_answered_with_the_option_to_change() -> None:
    with pytest.raises(InvalidOption, match="give a smaller --block-size"):
        report("Qwen3-8B", 20, Serving(block_tokens=1 << 40))


@pytest.mark.parametrize(
    ("name", "wished"), [("Qwen3.6-35B-A3B", 100), ("Zamba2", 50), ("LFM2-2.6B", 500)]
)
def test_the_memory_for_so_many_sequences_is_the_least_wherever_one_starts(
    name: str, wished: int
) -> None:
    answers = set()
    for gib in (0.5, 0.6):
        limit = report(name, gib, max_num_seqs=wished).sequences
        assert limit is not None
        answers.add(limit.memory_bytes)
    (least,) = answers
    assert least is not None
    for memory_bytes, fits in ((least, True), (least - (1 << 20), False)):
        limit = report(name, memory_bytes / GIB, max_num_seqs=wished).sequences
        assert limit is not None
        assert limit.fits is fits
