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
        # By kind: hashes to a row, and how far behind a row's first hash its name stands.
        specs = map(plan.spec_of_kind, self._kind_ids)
        units = [(spec.block_tokens // plan.hash_tokens, spec.num_hashes_beyond) for spec in specs]
        self._units = [(one, one - 1 + beyond) for one, beyond in units]
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
                rows = self._full_rows(request, kind, hashes, positions)
                self._ledger.commit(rows)
                table.note_committed(positions)
                committed.append(Committed(kind, positions, rows.hashes))
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

    def _full_rows(
        self,
        request: ShadowRequest,
        kind: KindId,
        hashes: Sequence[BlockHash],
        positions: Sequence[int],
    ) -> FullRows:
        """Rows of a kind, with what names the content at their positions: hashes are chained."""
        blocks = request.tables[kind].blocks_at(positions)
        units, beyond = self._units[kind]
        first = positions[0] * units + beyond
        if isinstance(positions, range) or len(positions) == 1:
            last = positions[-1] * units + beyond
            names = hashes[first : last + 1 : units]
            known = request.remembered
            is_remembered = first in known and last in known
            return FullRows(request.handle, kind, names, blocks, first, is_remembered)
        scattered = [hashes[position * units + beyond] for position in positions]
        return FullRows(request.handle, kind, scattered, blocks, first)
