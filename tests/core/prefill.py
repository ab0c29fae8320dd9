"""What most requests do first."""

from kvquarry_core.ids import GroupId, Handle, KindId
from kvquarry_core.plan import GroupKind
from tests.core.fake_engine import FakeEngine


def prefill(engine: FakeEngine, handle: Handle) -> None:
    """Spend everything that was granted, and commit what is full."""
    for group, blocks in enumerate(list(engine.books.requests[handle].granted)):
        if blocks:
            engine.take(handle, GroupId(group), len(blocks))
    commit_all(engine, handle)


def commit_all(engine: FakeEngine, handle: Handle) -> None:
    """Commit all blocks of attention, and the state at the last checkpoint of the text."""
    for kind in map(KindId, range(len(engine.plan.kinds))):
        rows = engine.books.committable(handle, kind)
        if engine.plan.spec_of_kind(kind).kind is GroupKind.RECURRENT_STATE:
            rows = rows[-1:]
        for block_hash, places in rows:
            engine.commit(handle, kind, block_hash, places)
