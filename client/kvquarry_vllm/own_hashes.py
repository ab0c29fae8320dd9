"""What routers call a draft model's blocks.

The pool finds such a block under the hash one unit beyond its end; routers know it by its own. Of
prompts that part right behind a block each may leave a row of it, every one under another name.
"""

from collections import Counter
from collections.abc import Iterable

from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.plan import Plan


class OwnHashes:
    """From the names that the pool forgets to what routers were told; no more than is cached."""

    def __init__(self, plan: Plan) -> None:
        kinds = map(KindId, range(len(plan.kinds)))
        drafts = [kind for kind in kinds if plan.spec_of_kind(kind).num_hashes_beyond]
        self._own: dict[KindId, dict[BlockHash, BlockHash]] = {kind: {} for kind in drafts}
        self._num_names: dict[KindId, Counter[BlockHash]] = {kind: Counter() for kind in drafts}

    def __len__(self) -> int:
        """Names that are remembered: those that a draft's rows can be found under."""
        return sum(map(len, self._own.values()))

    def note(
        self, kind: KindId, names: Iterable[BlockHash], own_hashes: Iterable[BlockHash]
    ) -> None:
        """Blocks of a kind can be found under these names."""
        if kind not in self._own:
            return
        own, num_names = self._own[kind], self._num_names[kind]
        for name, own_hash in zip(names, own_hashes, strict=True):
            if name not in own:
                own[name] = own_hash
                num_names[own_hash] += 1

    def forget(self, kind: KindId, name: BlockHash) -> BlockHash | None:
        """The own hash of what was found under a name; None while another name leads to it."""
        if kind not in self._own:
            return name
        own_hash = self._own[kind].pop(name, None)
        if own_hash is None:
            return None
        num_names = self._num_names[kind]
        num_names[own_hash] -= 1
        if num_names[own_hash]:
            return None
        del num_names[own_hash]
        return own_hash

    def clear(self) -> None:
        """Nothing can be found any more."""
        for kind in self._own:
            self._own[kind].clear()
            self._num_names[kind].clear()
