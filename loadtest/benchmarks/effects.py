"""How many blocks a batch of operations moves."""

from collections import Counter

from kvquarry.v1alpha import pool_pb2


class EffectCounter:
    """Counts block effects along a recording.

    Taken are blocks spent from grants and states leased; committed and dropped are blocks named;
    freed are the blocks that freed requests still used, and the states given back.
    """

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._held: Counter[int] = Counter()

    def add(self, batch: pool_pb2.Batch, result: pool_pb2.BatchResult | None) -> int:
        """Count a batch and its result, if it had one; returns its effects."""
        before = self.totals.total()
        answers = list(result.answers) if result is not None else []
        for operation in batch.operations:
            sort = operation.WhichOneof("operation")
            if sort in {"admit", "grow", "lease", "grant_ahead", "reset_cache"}:
                self._answered(operation, answers.pop(0))
            else:
                self._moved(operation)
        return self.totals.total() - before

    def _answered(self, operation: pool_pb2.Operation, answer: pool_pb2.Answer) -> None:
        if answer.HasField("admission"):
            hits = sum(len(one.blocks) for one in answer.admission.hit_blocks)
            self._held[operation.admit.handle] += hits
        elif operation.HasField("lease") and answer.HasField("grant"):
            self.totals["taken"] += sum(len(one.blocks) for one in answer.grant.blocks)

    def _moved(self, operation: pool_pb2.Operation) -> None:
        take, commit, drop = operation.take, operation.commit, operation.drop
        self.totals["taken"] += sum(take.block_counts)
        for handle, count in zip(take.handles, take.block_counts, strict=True):
            self._held[handle] += count
        self.totals["committed"] += len(commit.blocks)
        self.totals["dropped"] += len(drop.blocks)
        for handle, count in zip(drop.handles, drop.block_counts, strict=True):
            self._held[handle] -= count
        self.totals["freed"] += len(operation.give_back.blocks)
        for handle in operation.free.handles:
            self.totals["freed"] += max(self._held.pop(handle, 0), 0)
