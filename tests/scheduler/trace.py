"""What a scheduler decided, step by step, so that two schedulers can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm.v1.core.sched.output import SchedulerOutput

from tests.scheduler.worker import StepRecord


@dataclass(frozen=True)
class StepTrace:
    """What a scheduler decided in one step.

    Attributes:
        scheduled: Requests and their number of tokens, in order.
        hits: Tokens found in the cache, for requests that started or came back.
        preempted: Requests whose blocks were taken back.
    """

    scheduled: tuple[tuple[str, int], ...]
    hits: tuple[tuple[str, int], ...]
    preempted: tuple[str, ...]


@dataclass
class Trace:
    """All steps of a simulation."""

    steps: list[StepTrace] = field(default_factory=list)
    num_rejected_drafts: int = 0
    num_accepted_drafts: int = 0

    def step_ran(self, output: SchedulerOutput, record: StepRecord) -> None:
        """See :class:`tests.scheduler.engine.StepObserver`."""
        cached = output.scheduled_cached_reqs
        started = [(new.req_id, new.num_computed_tokens) for new in output.scheduled_new_reqs]
        resumed = [
            (request_id, num_computed)
            for request_id, num_computed in zip(
                cached.req_ids, cached.num_computed_tokens, strict=True
            )
            if request_id in cached.resumed_req_ids
        ]
        self.steps.append(
            StepTrace(
                scheduled=tuple(output.num_scheduled_tokens.items()),
                hits=tuple(started + resumed),
                preempted=tuple(sorted(output.preempted_req_ids or ())),
            )
        )
        for chunk in record.chunks:
            self.num_accepted_drafts += chunk.num_accepted_drafts
            self.num_rejected_drafts += len(chunk.drafts) - chunk.num_accepted_drafts

    @property
    def num_preemptions(self) -> int:
        """Requests preempted, all steps together."""
        return sum(len(step.preempted) for step in self.steps)

    @property
    def hit_tokens(self) -> int:
        """Tokens found in the cache, all admissions together."""
        return sum(tokens for step in self.steps for _, tokens in step.hits)

    @property
    def first_hit_tokens(self) -> int:
        """Tokens found in the cache by requests when they first started."""
        return sum(self.first_hits().values())

    def first_hits(self) -> dict[str, int]:
        """For each request, the tokens found when it first started."""
        hits: dict[str, int] = {}
        for step in self.steps:
            for request_id, tokens in step.hits:
                hits.setdefault(request_id, tokens)
        return hits
