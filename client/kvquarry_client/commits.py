"""Full blocks become findable: which ones, and under which names."""

from collections.abc import Iterable, Iterator, Sequence

from kvquarry_client.ledger import Ledger
from kvquarry_client.records import ShadowRequest
from kvquarry_client.scheduling import Committed
from kvquarry_core.checkpoints import Checkpoints
from kvquarry_core.ids import BlockHash, KindId
from kvquarry_core.messages import FullRows
from kvquarry_core.plan import GroupKind, Plan
from kvquarry_core.retention import Landmarks


class Commits:
    """Tells the pool of the blocks that requests have filled, and remembers whether states were."""

    def __init__(self, plan: Plan, ledger: Ledger, checkpoints: Checkpoints | None) -> None:
        self._plan = plan
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._kind_ids = [KindId(index) for index in range(len(plan.kinds))]
        states = GroupKind.RECURRENT_STATE
        self._are_states = [plan.spec_of_kind(kind).kind is states for kind in self._kind_ids]
        # A draft model's rows are found by who goes on beyond their end with the same text for one
        # hash unit: the same prompt again resumes that much earlier than one that goes on.
        self._draft_tokens = plan.hash_tokens if any(g.is_draft for g in plan.groups) else 0
        self._has_states = False

    def commit(
        self,
        request: ShadowRequest,
        hashes: Sequence[BlockHash],
        num_tokens: int,
        landmarks: Landmarks,
    ) -> list[Committed]:
        """Make the full blocks of a request's first ``num_tokens`` tokens findable, each once.

        Args:
            request: Whose blocks they are.
            hashes: Hashes at the plan's ``hash_tokens``.
            num_tokens: Tokens whose content is final, this step's included.
            landmarks: Where its text is known to be gone on from; the same object where they are
                those of last time is the fastest.
        """
        checkpoints = self._checkpoints
        if checkpoints is None:
            return []
        if request.landmarks is not landmarks:
            request.landmarks = landmarks
            request.aligned_landmarks = self._aligned(landmarks, checkpoints.alignment_tokens)
        committed = []
        for kind, table in zip(self._kind_ids, request.tables, strict=True):
            positions = request.commitable(kind, num_tokens, checkpoints)
            if positions:
                names = self._names_of(kind, hashes, positions)
                rows = FullRows(request.handle, kind, names, table.blocks_at(positions))
                self._ledger.commit(rows)
                table.note_committed(positions)
                committed.append(Committed(kind, positions, names))
                self._has_states |= self._are_states[kind]
        return committed

    def take_has_states(self) -> bool:
        """Whether states were committed since the last call: from the next step on they are hit."""
        taken, self._has_states = self._has_states, False
        return taken

    def _aligned(self, landmarks: Landmarks, unit_tokens: int) -> Landmarks:
        """Where hits may end then, with and without what a draft model gives up."""
        if self._draft_tokens:
            ends, junctions = landmarks.prompt_ends, landmarks.junctions
            landmarks = Landmarks(
                (*ends, *self._drafted(ends)), (*junctions, *self._drafted(junctions))
            )
        return landmarks.aligned(unit_tokens)

    def _drafted(self, places: Iterable[int]) -> Iterator[int]:
        return (place - self._draft_tokens for place in places)

    def _names_of(
        self, kind: KindId, hashes: Sequence[BlockHash], positions: Sequence[int]
    ) -> Sequence[BlockHash]:
        """What names the content at some positions of a kind: hashes are chained."""
        spec = self._plan.spec_of_kind(kind)
        units = spec.block_tokens // self._plan.hash_tokens
        first = units - 1 + spec.num_hashes_beyond
        if isinstance(positions, range):
            start, stop = positions.start * units + first, positions.stop * units + first
            return hashes[start : stop - units + 1 : units]
        return [hashes[position * units + first] for position in positions]
