"""What the naive books expect of a pool's answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvquarry_core.ids import BlockHash, BlockId, KindId
from kvquarry_core.messages import (
    Admission,
    AdmitRequest,
    Grant,
    Pinned,
    PinRefusal,
    PinRefusalCause,
    Refusal,
    RefusalCause,
)
from kvquarry_core.pool import Pool
from tests.core import reference
from tests.core.books import Books, FakePin, FindableRow, classes_of
from tests.core.memory import Key


@dataclass(frozen=True, slots=True)
class ExpectedAdmission:
    """What an admission has to answer."""

    hit_tokens: int
    rows: dict[KindId, list[FindableRow]]
    #: None: admitted.
    causes: frozenset[RefusalCause] | None
    #: By group, the grants that are large enough for ever fewer tokens.
    grants: list[list[int]]


SHORT = frozenset({RefusalCause.SHORTAGE, RefusalCause.NEVER_FITS})


def of_admission(books: Books, request: AdmitRequest) -> ExpectedAdmission:
    """The longest hit, whether it is too young, and whether the rest fits.

    Where nobody runs, a hit that leaves no room is given up: waiting would be of no use. Unless
    not even one token more would fit, with or without it.
    """
    expected = on_the_longest_hit(books, request)
    hit_tokens = expected.hit_tokens
    end = hit_tokens + 1 + request.lookahead_tokens
    more = reference.by_class(books.plan, books.held_blocks(request, hit_tokens, end))
    if expected.causes == SHORT and not books.requests and reference.ever_fits(books.plan, more):
        return _after_hit(books, request, 0)
    return expected


def on_the_longest_hit(books: Books, request: AdmitRequest) -> ExpectedAdmission:
    """The same where a hit is never given up."""
    names = list(request.hashes)
    hit_tokens = reference.longest_hit(books.plan, books.findable, names, request.max_hit_tokens)
    return _after_hit(books, request, hit_tokens)


def _after_hit(books: Books, request: AdmitRequest, hit_tokens: int) -> ExpectedAdmission:
    plan = books.plan
    rows = books.hit_rows(list(request.hashes), hit_tokens)
    used = books.used(touched_keys(rows))

    def demand(num_tokens: int) -> list[int]:
        return books.new_blocks(request, hit_tokens, num_tokens)

    longest = min(request.max_grant_tokens, request.num_tokens - hit_tokens)
    ends = [hit_tokens + n + request.lookahead_tokens for n in range(longest, 0, -1)]
    possible = [
        wanted
        for wanted in map(demand, ends)
        if reference.fits(plan, used, reference.by_class(plan, wanted))
    ]
    keep = request.keep_free_blocks or [0] * len(plan.classes)
    whole = reference.by_class(plan, books.whole_sequence(request, hit_tokens))
    spare = [blocks + free for blocks, free in zip(whole, keep, strict=True)]
    causes: frozenset[RefusalCause] | None = None
    if any(entry.is_too_young for entries in rows.values() for entry in entries):
        causes = frozenset({RefusalCause.SAME_STEP})
    elif not possible or (request.must_fit_tokens and not reference.fits(plan, used, spare)):
        causes = SHORT
    return ExpectedAdmission(hit_tokens, rows, causes, possible)


def touched_keys(rows: dict[KindId, list[FindableRow]]) -> set[Key]:
    """All blocks of some rows."""
    return {key for entries in rows.values() for entry in entries for key in entry.keys}


def check_answer(
    books: Books,
    expected: ExpectedAdmission,
    request: AdmitRequest,
    answer: Admission | Refusal,
) -> None:
    """Assert that an admission is the one expected."""
    assert answer.hit_tokens == expected.hit_tokens or expected.causes is not None
    if isinstance(answer, Refusal):
        assert expected.causes is not None, f"{request} fits, got {answer}"
        assert answer.cause in expected.causes
        return
    assert expected.causes is None, f"{request} must be refused, got {answer}"
    for kind, members in enumerate(books.plan.kinds):
        blocks = [
            list(column)
            for column in zip(*(e.row for e in expected.rows[KindId(kind)]), strict=True)
        ]
        expected_blocks = blocks or [[] for _ in members]
        assert [answer.hit_blocks[group] for group in members] == expected_blocks
    granted = [len(blocks) for blocks in answer.grant.blocks]
    assert granted in expected.grants, f"granted {granted}, possible are {expected.grants}"
    full = books.new_blocks(
        request,
        expected.hit_tokens,
        expected.hit_tokens
        + min(request.max_grant_tokens, request.num_tokens - expected.hit_tokens)
        + request.lookahead_tokens,
    )
    assert full not in expected.grants or granted == full, "the whole chunk fits"


def fits(books: Books, wanted: Sequence[int]) -> bool:
    """Whether ``wanted[g]`` more blocks of every group can be had."""
    return reference.fits(books.plan, books.used(), reference.by_class(books.plan, wanted))


def check_growth(expected: bool, wanted: Sequence[int], answer: Grant | Refusal) -> None:  # noqa: FBT001
    """Assert that a growth is granted iff that was expected, and in full."""
    assert isinstance(answer, Grant) == expected, f"{wanted} fits: {expected}, got {answer}"
    if isinstance(answer, Grant):
        assert [len(blocks) for blocks in answer.blocks] == list(wanted)


def check_evictions(
    books: Books,
    lost: Sequence[FindableRow],
    grant: Grant,
    before: tuple[set[Key], list[set[BlockId]]],
    owed: Sequence[int],
) -> None:
    """Nothing is evicted that was not cached, nor while free memory suffices.

    It suffices if what running requests were promised would fit into it, too, where it can be
    kept at all.

    Args:
        books: The books after the operation.
        lost: What was evicted by it.
        grant: What was granted by it.
        before: Cached blocks, and used blocks by class, before it.
        owed: Blocks promised beyond the grant, by class.
    """
    if not lost:
        return
    cached, used = before
    references = set(books.references())
    demand = reference.by_class(books.plan, [len(blocks) for blocks in grant.blocks])
    promised = [now + later for now, later in zip(demand, owed, strict=True)]
    if reference.fits(books.plan, used, promised):
        demand = promised
    for size_class, block in cached:
        used[size_class].add(block)
    assert not reference.fits(books.plan, used, demand), "evicted while free memory sufficed"
    for entry in lost:
        assert (cached - references).intersection(entry.keys), "evicted what is in use"


def check_pin(
    books: Books, pool: Pool, wanted: tuple[str, FakePin], answer: Pinned | PinRefusal
) -> None:
    """Assert that a pin holds the longest prefix, or is refused for one of the reasons."""
    (pin_id, pin), plan = wanted, books.plan
    before, after = (
        pinned_bytes(books, books.pins),
        pinned_bytes(books, {**books.pins, pin_id: pin}),
    )
    is_over = after > before and after > pool.pins.cap_bytes
    fits_now = reference.fits(plan, books.used(), pool.requests.owed)
    takes_away = fits_now and not reference.fits(plan, books.used(pin.keys), pool.requests.owed)
    if isinstance(answer, Pinned):
        assert answer.num_tokens == pin.num_tokens > 0
        assert answer.pinned_bytes == after
        assert not is_over, "pins hold more than they may"
        assert not takes_away, "what was promised is pinned"
    elif answer.cause is PinRefusalCause.NOTHING_CACHED:
        assert not pin.num_tokens
    else:
        assert is_over if answer.cause is PinRefusalCause.OVER_CAP else takes_away


def pinned_bytes(books: Books, pins: Mapping[str, FakePin]) -> int:
    """What some pins hold; a block that several of them hold counts once."""
    keys = {key for pin in pins.values() for key in pin.keys}
    return sum(books.plan.block_bytes(size_class) for size_class, _ in keys)


def rows_with(books: Books, keys: set[Key]) -> list[FindableRow]:
    """The findable rows that have one of some blocks."""
    return [
        entry
        for entries in books.findable.values()
        for entry in entries
        if keys.intersection(entry.keys)
    ]


def check_books(books: Books, pool: Pool) -> None:
    """The pool's references, grants, index and counters are those of the books."""
    references, granted = books.references(), books.granted()
    for size_class in classes_of(books.plan):
        in_class = [block for owner, block in granted if owner == size_class]
        assert pool.store.num_granted[size_class] == len(in_class)
        for index in range(1, books.plan.classes[size_class].num_blocks):
            if size_class == 0 and index < books.plan.num_reserved_blocks:
                continue
            block = BlockId(index)
            counted = pool.store.num_references(size_class, block)
            assert counted == references[size_class, block]
    check_index(books, pool)
    totals = pool.totals
    assert totals.commits == books.commits
    assert totals.admissions == books.admissions
    assert (totals.query_tokens, totals.hit_tokens) == (books.query_tokens, books.hit_tokens)


def check_index(books: Books, pool: Pool) -> None:
    """Exactly the rows of the books can be found, the oldest of equal ones first."""
    index = pool.store.index
    kinds = [KindId(kind) for kind in range(len(books.plan.kinds))]
    indexed: set[tuple[KindId, BlockHash, tuple[BlockId, ...]]] = {
        (one.kind, one.block_hash, one.row) for kind in kinds for one in index.commitments(kind)
    }
    assert indexed == {
        (kind, block_hash, entry.row)
        for (kind, block_hash), entries in books.findable.items()
        for entry in entries
    }
    for (kind, block_hash), entries in books.findable.items():
        found = index.find(kind, block_hash)
        assert found is not None
        assert index.row(kind, found) == entries[0].row, "the oldest of equal rows is found"
