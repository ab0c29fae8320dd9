"""The requests of a pool, and what they are owed together."""

from collections.abc import Iterator, Mapping

from kvquarry_core.errors import Reason, UsageError
from kvquarry_core.ids import GroupId, Handle
from kvquarry_core.plan import Plan
from kvquarry_core.requests import RequestRecord


class RunningRequests(Mapping[Handle, RequestRecord]):
    """Records by handle.

    Attributes:
        owed: Blocks promised to requests and not granted yet, by size class: the sum of what each
            :class:`~kvquarry_core.promise.Promise` says.
    """

    def __init__(self, plan: Plan) -> None:
        self.owed = [0] * len(plan.classes)
        self._class_of_group = plan.class_of_group
        self._group_ids = [GroupId(index) for index in range(len(plan.groups))]
        self._records: dict[Handle, RequestRecord] = {}

    def __getitem__(self, handle: Handle) -> RequestRecord:
        return self._records[handle]

    def __iter__(self) -> Iterator[Handle]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def record(self, handle: Handle) -> RequestRecord:
        """What a request holds.

        Raises:
            UsageError: There is no such request.
        """
        record = self._records.get(handle)
        if record is None:
            raise UsageError(Reason.UNKNOWN_REQUEST, f"there is no request {handle}")
        return record

    def new_record(self) -> RequestRecord:
        """One that holds nothing, of a request that is not here yet, or of nobody."""
        return RequestRecord.empty(len(self._group_ids))

    def add(self, handle: Handle, record: RequestRecord) -> None:
        """A request was let in; what it was promised is owed to it."""
        self._records[handle] = record
        for group in self._group_ids:
            self.owed[self._class_of_group[group]] += record.promise.owed(group)

    def remove(self, handle: Handle) -> RequestRecord:
        """A request is over; it is owed nothing any more."""
        record = self._records.pop(handle)
        for group in self._group_ids:
            self.owed[self._class_of_group[group]] -= record.promise.owed(group)
        return record

    def note_granted(self, record: RequestRecord, group: GroupId, num_blocks: int) -> None:
        """A request is owed less once it was granted blocks, and more when it returned them."""
        size_class = self._class_of_group[group]
        self.owed[size_class] -= record.promise.owed(group)
        record.promise.granted(group, num_blocks)
        self.owed[size_class] += record.promise.owed(group)

    def note_dropped(self, record: RequestRecord, group: GroupId, num_blocks: int) -> None:
        """A request gave up blocks: others may take their place."""
        size_class = self._class_of_group[group]
        self.owed[size_class] -= record.promise.owed(group)
        record.promise.dropped(group, num_blocks)
        self.owed[size_class] += record.promise.owed(group)
