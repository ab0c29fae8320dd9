"""C16: what can never fit is refused as such, at once; nothing waits for ever at no usage."""

from hypothesis import given
from hypothesis import strategies as st

from kvquarry_core.ids import Handle
from kvquarry_core.messages import Admission, AdmitRequest, RefusalCause
from kvquarry_core.plan import Plan
from kvquarry_core.pool import Pool
from tests.core import reference
from tests.core.fake_engine import FakeEngine
from tests.core.prefill import prefill
from tests.core.small_pools import cache, hashes, one_class, refused, request, two_classes
from tests.strategies import PROMPTS, examples, small_plans


def ask_for(text: str, num_tokens: int) -> AdmitRequest:
    """A request that must fit as a whole."""
    return AdmitRequest(
        handle=Handle(1),
        hashes=hashes(text),
        num_tokens=num_tokens,
        max_hit_tokens=num_tokens - 1,
        max_grant_tokens=num_tokens,
        must_fit_tokens=num_tokens,
    )


@examples(300)
@given(small_plans(), st.integers(1, 400))
def test_an_empty_pool_refuses_for_good(plan: Plan, num_tokens: int) -> None:
    """Nobody can free anything, so to say "not now" would be to say "wait for ever"."""
    answer = Pool(plan).admit(ask_for("", num_tokens))
    demand = reference.by_class(plan, reference.most_new_blocks(plan, 0, num_tokens, num_tokens))
    if reference.ever_fits(plan, demand):
        assert isinstance(answer, Admission)
    else:
        assert refused(answer).cause is RefusalCause.NEVER_FITS


@examples(200)
@given(small_plans(), st.integers(1, 60), st.integers(0, 200))
def test_an_empty_pool_refuses_a_first_chunk_for_good(
    plan: Plan, num_tokens: int, lookahead_tokens: int
) -> None:
    """Nothing has to fit as a whole here, but one token and the lookahead have to."""
    answer = Pool(plan).admit(
        AdmitRequest(Handle(1), [], num_tokens, 0, num_tokens, lookahead_tokens)
    )
    least = reference.new_blocks(plan, 0, 1 + lookahead_tokens)
    if reference.ever_fits(plan, reference.by_class(plan, least)):
        assert isinstance(answer, Admission)
    else:
        assert refused(answer).cause is RefusalCause.NEVER_FITS


def test_a_lookahead_beyond_the_pool_never_fits() -> None:
    pool = Pool(one_class(num_blocks=3))
    ask = AdmitRequest(Handle(1), [], 1, 0, 1, lookahead_tokens=3)
    assert refused(pool.admit(ask)).cause is RefusalCause.NEVER_FITS


def test_two_classes_that_fit_one_by_one_but_not_together_never_fit() -> None:
    """Two slabs: six blocks of attention fit, or two states, but not four blocks and a state."""
    pool = Pool(two_classes(num_slabs=2))
    assert pool.plan.classes[0].num_usable_blocks == 6
    assert refused(pool.admit(request(1, "abcd", must_fit_tokens=4))).cause is (
        RefusalCause.NEVER_FITS
    )


def test_a_cached_prefix_does_not_make_too_long_a_request_wait() -> None:
    """Ten blocks never fit into nine, whether five of them are cached or not."""
    pool = Pool(one_class(num_blocks=9))
    cache(pool, 1, "abcde")
    assert refused(pool.admit(request(2, "abcdefghij", must_fit_tokens=10))).cause is (
        RefusalCause.NEVER_FITS
    )


def test_a_request_that_fits_without_a_watermark_is_told_to_wait() -> None:
    """The watermark lapses when nothing runs; then the request is admitted."""
    pool = Pool(one_class(num_blocks=9))
    ask = AdmitRequest(Handle(1), [], 9, 0, 9, must_fit_tokens=9, keep_free_blocks=(1,))
    assert refused(pool.admit(ask)).cause is RefusalCause.SHORTAGE
    assert isinstance(pool.admit(request(1, "abcdefghi", must_fit_tokens=9)), Admission)


def test_an_idle_pool_admits_what_an_empty_one_would() -> None:
    """A checkpoint that is hit takes a slab beside the running state: there is none.

    The request would fit without the hit. Refused with it, it would wait for ever: nobody runs,
    and nothing but its own prefix is cached.
    """
    plan = two_classes(num_slabs=2)
    assert isinstance(Pool(plan).admit(request(1, "ab", must_fit_tokens=2)), Admission)
    pool = Pool(plan)
    cache(pool, 1, "a")
    answer = pool.admit(request(2, "ab", must_fit_tokens=2))
    assert isinstance(answer, Admission), answer


@examples(100)
@given(small_plans(), st.lists(PROMPTS, max_size=4), PROMPTS, st.integers(1, 60))
def test_an_idle_pool_refuses_for_good_whatever_is_cached(
    plan: Plan, served: list[str], text: str, more_tokens: int
) -> None:
    engine = FakeEngine(plan)
    for handle, prompt in enumerate(served, start=10):
        serve(engine, Handle(handle), prompt)
    ask = ask_for(text, len(text) * plan.hash_tokens + more_tokens)
    answer = engine.pool.admit(ask)
    whole = reference.most_new_blocks(plan, 0, ask.num_tokens, ask.num_tokens)
    demand = reference.by_class(plan, whole)
    if reference.ever_fits(plan, demand):
        assert isinstance(answer, Admission)
    else:
        assert refused(answer).cause is RefusalCause.NEVER_FITS


def serve(engine: FakeEngine, handle: Handle, prompt: str) -> None:
    """One request from beginning to end, if there is room for it."""
    num_tokens = len(prompt) * engine.plan.hash_tokens + 1
    ask = AdmitRequest(handle, hashes(prompt), num_tokens, num_tokens - 1, num_tokens)
    if isinstance(engine.admit(ask, prompt), Admission):
        prefill(engine, handle)
        engine.free(handle)
        engine.begin_step()
