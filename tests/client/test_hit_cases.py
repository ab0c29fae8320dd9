"""C01 to C05: what whole engines hit, with the right answers; C05 to C08 are the core's."""

from dataclasses import dataclass, field, replace

import pytest

from kvquarry_client.inproc import open_inproc, register_inproc_worker
from kvquarry_client.scheduling import Allocation, ShadowSettings, Waiting
from kvquarry_client.shadow import Shadow
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.integrity import check_integrity
from kvquarry_core.plan import GroupKind, GroupSpec, make_plan
from kvquarry_core.retention import Boundaries, Dense, Interval, Landmarks, Retention
from kvquarry_core.worker_layout import planned_views

#: One state per interval, or only those at proven places.
SPARSE, DENSE = Boundaries(), Dense()


@dataclass(frozen=True)
class Text:
    """A prompt in two parts: one that others may have too, and one of its own."""

    shared: str
    num_shared: int
    own: str = ""
    num_own: int = 0

    @property
    def num_tokens(self) -> int:
        return self.num_shared + self.num_own

    def hashes(self, block_tokens: int) -> list[BlockHash]:
        """Equal as long as all tokens up to a block's end are."""
        names = []
        for end in range(block_tokens, self.num_tokens + 1, block_tokens):
            own = self.own if end > self.num_shared else ""
            names.append(BlockHash(f"{self.shared}/{own}/{end}".encode()))
        return names


def hybrid(block_tokens: int) -> list[GroupSpec]:
    """Attention and states, with room for all of a case."""
    return [
        GroupSpec(GroupKind.FULL_ATTENTION, block_tokens, 16 * block_tokens, 1),
        GroupSpec(GroupKind.RECURRENT_STATE, block_tokens, 4_096, 1),
    ]


@dataclass
class Requests:
    """One request after the other, each from its lookup to its end."""

    groups: list[GroupSpec]
    checkpoints: Checkpoints
    max_chunk: int = 1 << 20
    pool_bytes: int = 4_000_000
    hash_tokens: int | None = None
    hits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = make_plan(self.groups, self.pool_bytes)
        self.plan = replace(plan, hash_tokens=self.hash_tokens or plan.hash_tokens)
        has_draft = any(spec.is_draft for spec in self.groups)
        self.margin_tokens = self.plan.hash_tokens if has_draft else 0
        pool_id, self.ledger = open_inproc(self.plan)
        register_inproc_worker(pool_id, list(planned_views(self.plan)), self.plan.pool_bytes)
        settings = ShadowSettings(
            max_grant_tokens=self.max_chunk,
            lookahead_tokens=0,
            must_fit_whole=True,
            keep_free_blocks=(),
            checkpoints=self.checkpoints,
        )
        self.shadow = Shadow(self.plan, self.ledger, settings)

    def send(self, text: Text) -> int:
        """Serve a prompt and one token after it; what it hit."""
        name = f"request {len(self.hits)}"
        waiting = Waiting(name, text.hashes(self.plan.hash_tokens), text.num_tokens)
        lookup = self.shadow.lookup(waiting)
        self.hits.append(lookup.hit_tokens)
        computed = lookup.hit_tokens
        landmarks = Landmarks((text.num_tokens - 1,), (lookup.junction_tokens,))
        while computed < text.num_tokens:
            end = self._end_of_chunk(computed, landmarks, text.num_tokens)
            self._compute(waiting, computed, end, landmarks)
            computed = end
        self._compute(waiting, computed, computed + 1, landmarks)
        self.shadow.free(name)
        return self.hits[-1]

    def _end_of_chunk(self, computed: int, landmarks: Landmarks, num_tokens: int) -> int:
        """As a scheduler cuts them: no chunk passes a place where a state is wanted.

        With drafts the same prompt again resumes a hash unit earlier than one that goes on.
        """
        align = self.checkpoints.alignment_tokens
        ends = (*landmarks.prompt_ends, *landmarks.junctions)
        earlier = [end - self.margin_tokens for end in ends]
        places = [end // align * align for end in (*ends, *earlier)]
        last = min([num_tokens, *(place for place in places if place > computed)])
        return min(last, computed + self.max_chunk)

    def _compute(self, waiting: Waiting, computed: int, end: int, landmarks: Landmarks) -> None:
        allocation = Allocation(end, end, computed)
        running = self.shadow.find(waiting.request_id)
        if running is None:
            assert self.shadow.allocate_first(waiting, allocation, keep_free=True)
        else:
            assert self.shadow.allocate(running, allocation)
        num_full = min(end, waiting.num_tokens)
        self.shadow.commit(waiting.request_id, waiting.hashes, num_full, landmarks)
        self.shadow.begin_step()


@pytest.mark.parametrize(
    ("block_tokens", "retention", "num_hits", "hit_tokens"),
    [(528, SPARSE, 48, 1_056), (16, SPARSE, 48, 1_488), (528, DENSE, 56, 1_056)],
)
def test_c01_checkpoints_are_where_prefixes_part(
    block_tokens: int, retention: Retention, num_hits: int, hit_tokens: int
) -> None:
    """Eight documents, eight questions to each; every request's last state alone is of no use."""
    max_chunk = block_tokens if retention is DENSE else 1 << 20
    engine = Requests(hybrid(block_tokens), Checkpoints(retention, block_tokens), max_chunk)
    for document in range(8):
        for question in range(8):
            engine.send(Text(f"document {document}", 1_500, f"question {question}", 700))
    assert [hit for hit in engine.hits if hit] == [hit_tokens] * num_hits
    check_integrity(engine.ledger.pool)


@pytest.mark.parametrize(
    ("block_tokens", "expected"), [(16, [480, 544, 976]), (528, [0, 528, 528])]
)
def test_c02_short_prefixes_are_hit_in_steps_of_a_block(
    block_tokens: int, expected: list[int]
) -> None:
    engine = Requests(hybrid(block_tokens), Checkpoints(SPARSE, block_tokens))
    found = []
    for num_shared in (480, 552, 979):
        texts = [Text(f"system {num_shared}", num_shared, own, 90) for own in "abc"]
        found.append([engine.send(text) for text in texts][-1])
    assert found == expected


def test_c03_the_counters_agree_with_the_hits() -> None:
    engine = Requests(hybrid(16), Checkpoints(SPARSE, 16))
    engine.send(Text("first", 561))
    assert engine.send(Text("first", 561, "more", 9)) == 560
    totals = engine.ledger.pool.totals
    assert (totals.query_tokens, totals.hit_tokens) == (1_131, 560)


@pytest.mark.parametrize("kind", [GroupKind.SLIDING_WINDOW, GroupKind.CHUNKED_LOCAL])
@pytest.mark.parametrize("retention", [SPARSE, DENSE, Interval(512)])
def test_c04_a_window_is_kept_where_a_hit_may_end(kind: GroupKind, retention: Retention) -> None:
    """Hits end at multiples of 32, so more than one window before the prompt's end is needed.

    A chunk of 1,024 ends where the prompt does, and reaches back to 3,072.
    """
    groups = [
        GroupSpec(GroupKind.FULL_ATTENTION, 32, 512, 1),
        GroupSpec(kind, 16, 256, 1, window_tokens=1_024),
    ]
    engine = Requests(groups, Checkpoints(retention, 32))
    engine.send(Text("prompt", 4_086, "first end", 10))
    assert engine.send(Text("prompt", 4_086, "other end", 10)) == 4_064


def test_c04_under_pressure_the_kept_window_outlives_what_it_left_behind() -> None:
    """The pool holds another prompt beside the attention and the one window of the first.

    It would not hold all that the window passed over as well.
    """
    groups = [
        GroupSpec(GroupKind.FULL_ATTENTION, 32, 256, 1),
        GroupSpec(GroupKind.SLIDING_WINDOW, 16, 256, 1, window_tokens=1_024),
    ]
    engine = Requests(groups, Checkpoints(SPARSE, 32), max_chunk=512, pool_bytes=256 * 320)
    engine.send(Text("prompt", 4_086, "first end", 10))
    kept = engine.ledger.pool.store.cache.num_cached(engine.plan.class_of_group[0])
    assert kept == 4_096 // 32 + 1_024 // 16
    engine.send(Text("other", 1_024))
    assert engine.send(Text("prompt", 4_086, "other end", 10)) == 4_064
    assert not any(engine.ledger.pool.store.num_evictions)
    check_integrity(engine.ledger.pool)


def with_draft(block_tokens: int) -> list[GroupSpec]:
    """Three groups: attention, a draft model's attention, and states."""
    draft = GroupSpec(GroupKind.FULL_ATTENTION, block_tokens, 24 * block_tokens, 1, is_draft=True)
    return [draft, *hybrid(block_tokens)]


@pytest.mark.parametrize(
    ("block_tokens", "hash_tokens", "hit_tokens"),
    [
        pytest.param(896, 16, 1_792, id="896-token states"),
        pytest.param(16, 16, 2_496, id="16-token states"),
        # The negative control: a unit as long as a block costs a block.
        pytest.param(896, 896, 896, id="one hash for 896 tokens"),
    ],
)
def test_c05_drafts_cost_one_hash_unit(
    block_tokens: int, hash_tokens: int, hit_tokens: int
) -> None:
    """A prompt of 2,528 tokens is sent four times."""
    engine = Requests(
        with_draft(block_tokens), Checkpoints(SPARSE, block_tokens), hash_tokens=hash_tokens
    )
    for _ in range(4):
        engine.send(Text("prompt", 2_528))
    assert engine.hits == [0, *[hit_tokens] * 3]
    check_integrity(engine.ledger.pool)


def test_c05_without_a_draft_nothing_is_dropped() -> None:
    engine = Requests(hybrid(16), Checkpoints(SPARSE, 16))
    for _ in range(4):
        engine.send(Text("prompt", 2_528))
    assert engine.hits == [0, *[2_512] * 3]


@pytest.mark.parametrize(("num_shared", "hit_tokens"), [(1_807, 896), (1_808, 1_792)])
def test_c05_whoever_parts_within_the_unit_behind_a_block_does_not_hit_it(
    num_shared: int, hit_tokens: int
) -> None:
    """Dense, so that states are at every boundary."""
    engine = Requests(with_draft(896), Checkpoints(DENSE, 896), max_chunk=896, hash_tokens=16)
    engine.send(Text("prompt", num_shared, "first", 700))
    assert engine.send(Text("prompt", num_shared, "other", 700)) == hit_tokens


def test_a_checkpoint_beside_drafts_sums_up_all_tokens_before_it() -> None:
    """Though the draft's last block before it is committed later."""
    draft, _, of_states = with_draft(16)
    engine = Requests([draft, of_states], Checkpoints(SPARSE, 16))
    text = Text("prompt", 100)
    engine.send(text)
    store, names = engine.ledger.pool.store, text.hashes(16)
    kind = next(KindId(k) for k in range(2) if engine.plan.spec_of_kind(KindId(k)) == of_states)
    found = {
        (names.index(one.block_hash) + 1) * 16: store.contents.depth_tokens(
            engine.plan.class_of_kind(kind), one.row[0]
        )
        for one in store.index.commitments(kind)
    }
    assert found == {80: 80, 96: 96}
