"""Succession of daemons: what Ganeti's jobs of the last day tell the next one.

Policies spend budgets and let instances rest, and their memory is on the disk of the machine that was the
master. Ganeti keeps jobs on all master candidates. So the next master's daemon learns from them what was
spent, what was moved, and which plan was going on. Pure functions over jobs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.run import Ending, Run, Task
from ganeti_htools.execution.wording import describe_end, summary
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Opcode, Signature
from ganeti_htools.luxi.past_jobs import PastJob, PlanMark
from ganeti_htools.model.errors import printable
from ganeti_htools.model.wording import counted
from htoolsd.plans.plan import Plan, PlanState
from htoolsd.policies.memory import Expense

_MOVING = ("OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_MOVE", "OP_INSTANCE_REPLACE_DISKS")
_WITHOUT_EFFECT = (JobStatus.ERROR, JobStatus.CANCELED)

MarkedJob = tuple[PlanMark, PastJob]


def expenses(jobs: Iterable[PastJob]) -> Iterator[tuple[str, Expense]]:
    """Yield the policy and the expense of each plan of a policy, from its first job."""
    for _, marked in _by_run(jobs):
        mark, first = marked[0]
        if mark.policy:
            yield mark.policy, Expense(first.received, mark.moves, mark.mib, mark.run)


def moved(jobs: Iterable[PastJob]) -> dict[str, float]:
    """Return the time of the last job that moved an instance, by its name."""
    return _last_times(jobs, "instance_name", lambda opcode: opcode["OP_ID"] in _MOVING)


def switched(jobs: Iterable[PastJob]) -> dict[str, float]:
    """Return the time of the last job that set a node offline or online, by its name."""
    return _last_times(
        jobs,
        "node_name",
        lambda opcode: opcode["OP_ID"] == "OP_NODE_SET_PARAMS" and opcode.get("offline") is not None,
    )


def _last_times(jobs: Iterable[PastJob], subject: str, counts: Callable[[Opcode], bool]) -> dict[str, float]:
    """Return the time of the last job with such an opcode, by the opcode's parameter ``subject``."""
    return {
        str(opcode.get(subject)): job.received
        for job in jobs
        if job.status not in _WITHOUT_EFFECT
        for opcode in job.opcodes
        if counts(opcode)
    }


def unfinished_plans(jobs: Iterable[PastJob], known: Collection[str], since: float) -> list[Plan]:
    """Return the plans that failed, still had jobs to submit, or have jobs under way.

    Plans that are known, plans that others continued, and plans without a job since a time are left out.
    """
    plans = list(_by_run(jobs))
    continued = {mark.continues for _, marked in plans for mark, _ in marked}
    return [
        _plan(run, marked)
        for run, marked in plans
        if run not in known and run not in continued and marked[-1][1].received > since
        if marked[-1][0].left or not all(job.status.final for _, job in marked) or _has_failed(marked)
    ]


def _has_failed(marked: list[MarkedJob]) -> bool:
    """Whether a plan ended with a job that failed. An earlier one that failed may have been repeated."""
    newest = [job for mark, job in marked if mark.jobset == marked[-1][0].jobset]
    ended = all(job.status.final for _, job in marked)
    return ended and any(job.status in _WITHOUT_EFFECT for job in newest)


def _by_run(jobs: Iterable[PastJob]) -> Iterator[tuple[str, list[MarkedJob]]]:
    """Yield each plan's id and its jobs, oldest first."""
    marked = [(mark, job) for job in jobs if (mark := job.mark())]
    marked.sort(key=lambda each: each[0].run)
    for run, members in groupby(marked, key=lambda each: each[0].run):
        yield run, list(members)


def _plan(run: str, marked: list[MarkedJob]) -> Plan:
    """Return what is known of a plan that failed or was interrupted.

    Whoever made a plan that failed has followed it; nobody may have looked at a policy's.
    """
    failed = _has_failed(marked)
    (first, began), (last, newest) = marked[0], marked[-1]
    left = f"{counted(last.left, 'job')} that it had left are not known here"
    reason = "begun by another daemon" + (f"; {left}" if last.left else "")
    facts: dict[str, Any] = {
        "id": run,
        "tool": first.tool,
        "options": None,
        "groups": [],
        "made": began.received,
        "by": {"uid": 0, "pid": 0},
        "generations": {},
        "score": {"before": None, "after": None},
        "cost": None,
        **({"policy": first.policy} if first.policy else {}),
    }
    plan = Plan(
        facts,
        Run(
            Signature(first.tool, "", first.purpose, run),
            [],
            [_task(mark, job) for mark, job in marked],
            last.jobset,
            ending=Ending.FAILED if failed else None,
            reason=reason,
        ),
        state=PlanState.FAILED if failed else PlanState.INTERRUPTED,
        error=reason,
        began=began.received,
        ended=newest.received,
        seen=failed and not first.policy,
    )
    plan.say(*(printable(describe_end(task)) for task in plan.run.tasks if task.over), *summary(plan.run))
    return plan


def _task(mark: PlanMark, job: PastJob) -> Task:
    first = job.opcodes[0]
    subject = first.get("instance_name") or first.get("node_name") or ""
    title = f"{first['OP_ID'].removeprefix('OP_')}({subject})"
    error = "failed" if job.status is JobStatus.ERROR else None
    return Task(Job(title, job.opcodes, ()), f"{mark.jobset}/{mark.number}", job.number, job.status, error)
