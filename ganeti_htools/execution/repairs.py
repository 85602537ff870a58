"""Repairs of instances over LUXI: their jobs, and their records in the instances' tags (``harep(1)``).

The messages are those of Ganeti's harep.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ganeti_htools import machine
from ganeti_htools.engine.repair.records import Outcome, Repair, RepairType
from ganeti_htools.engine.repair.states import Condition, RepairState
from ganeti_htools.luxi import job_queries, jobs, opcodes
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.jobs import PATIENCE
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.model.errors import HtoolsError, during

PROGRAM = "harep"  # in the reason trail of its jobs


@dataclass(slots=True)
class Repairs:
    """One round of repairs. ``clock`` returns nanoseconds; with ``dry_run`` nothing changes."""

    ganeti: LuxiClient
    signature: Signature
    clock: Callable[[], int]
    say: Callable[..., None]
    away: Callable[[str | None], Awaitable[None]]
    dry_run: bool = False
    _submitted: int = field(default=0, init=False)
    _under_way: dict[str, int] | None = field(default=None, init=False)

    async def follow(self, instance: str, state: RepairState) -> RepairState:
        """Record the outcome of a pending repair once all its jobs have ended; return the state then.

        A job that Ganeti no longer knows counts as failed. Raises HtoolsError.
        """
        repair = state.repair
        if repair is None or state.condition is not Condition.PENDING:
            return state
        with during("could not check job status"):
            statuses = await job_queries.job_statuses(self.ganeti, repair.jobs)
        if any(status is not None and not status.final for status in statuses):
            return state
        succeeded = all(status is JobStatus.SUCCESS for status in statuses)
        condition = Condition.HEALTHY if succeeded else Condition.FAILED
        outcome = Outcome.SUCCESS if succeeded else Outcome.FAILURE
        self.say(f'Moving {instance} from "{state.condition.value}" to "{condition.value}"')
        return await self._record(instance, state.then(condition, repair.ended(outcome, self._now())))

    async def refuse(self, instance: str, state: RepairState, kind: RepairType) -> RepairState:
        """Record that a repair is not allowed. Raises HtoolsError."""
        repair = Repair(kind, machine.new_uuid(), self._now(), outcome=Outcome.NOT_ALLOWED)
        return await self._record(instance, state.then(Condition.DISALLOWED, repair))

    async def begin(
        self, instance: str, state: RepairState, kind: RepairType, work: Sequence[Opcode]
    ) -> RepairState:
        """Submit the job of a repair, and record it.

        A job that a cut-off run has submitted without a record is recorded in place of a second one. Raises
        HtoolsError.
        """
        time, number = self._now(), (await self._unfinished()).get(instance)
        if number is not None:
            numbers: tuple[int, ...] = (number,)
        elif self.dry_run:
            self.say("jobs: " + json.dumps([work], separators=(",", ":")))
            numbers = ()
        else:
            numbers = (await self._submit(work),)
        return await self._record(
            instance, state.then(Condition.PENDING, Repair(kind, machine.new_uuid(), time, numbers))
        )

    async def _record(self, instance: str, state: RepairState) -> RepairState:
        """Write the tag of a new state, and remove outdated tags; return the state without them."""
        assert state.repair is not None
        self.say(f">>> Adding the following tag to {instance}:", f'"{state.repair.tag}"')
        await self._complete([opcodes.tag_instance(instance, [state.repair.tag])])
        if state.outdated:
            tags = (f'"{tag}"' for tag in state.outdated)
            self.say(f">>> Removing the following tags from {instance}:", *tags)
            await self._complete([opcodes.untag_instance(instance, state.outdated)])
        return RepairState(state.condition, state.repair)

    async def _complete(self, work: Sequence[Opcode]) -> None:
        """Submit a job and wait until it has succeeded, unless nothing may change. Raises HtoolsError."""
        if self.dry_run:
            return
        number, last = await self._submit(work), None

        async def news(_number: int, change: JobStatus | str | None) -> None:
            nonlocal last
            last = last if isinstance(change, str) else change

        await jobs.follow(self.ganeti, [number], PATIENCE, self.away, news)
        if last is not JobStatus.SUCCESS:
            status = "lost" if last is None else last.value
            raise HtoolsError(f"The following jobs failed: {number}=>{status}")

    async def _submit(self, work: Sequence[Opcode]) -> int:
        self._submitted += 1
        signed = self.signature.sign(work, str(self._submitted), self.clock())
        [answer] = await jobs.submit(self.ganeti, [signed], PATIENCE, self.away)
        if isinstance(answer, str):
            raise HtoolsError(f"Job submission error: {answer}")
        return answer

    async def _unfinished(self) -> dict[str, int]:
        """Return the unfinished job of harep on each instance, as it was at the first call."""
        if self._under_way is None:
            self._under_way = {
                opcode["instance_name"]: number
                for number, work in await job_queries.unfinished(self.ganeti)
                for opcode in work
                if "instance_name" in opcode and PROGRAM in opcodes.sources(opcode)
            }
        return self._under_way

    def _now(self) -> int:
        return self.clock() // 10**9
