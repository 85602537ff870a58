"""Text about a run: events, progress, summary and complaint.

The tools print the lines. The daemon keeps them with the plan, from where the tools print them with ``-D``.
"""

from collections.abc import Mapping
from typing import Any

from ganeti_htools.execution.events import Away, Event, News, OnEvent, Submitted
from ganeti_htools.execution.review import Say
from ganeti_htools.execution.run import REQUESTED, Ending, Run, Task
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.model.errors import on_one_line, printable

_LOG_WIDTH = 60  # characters of a job's log line in the progress line


def event_reporter(run: Run, say: Say, warn: Say, live: Say) -> OnEvent:
    """Make a function that reports events to people.

    ``say`` receives lines of the report, ``warn`` lines about Ganeti's absence. ``live`` receives the
    progress line, which replaces the last one; an empty text removes it.
    """

    def say_printable(*lines: str) -> None:
        say(*map(printable, lines))

    async def report(event: Event) -> None:
        live("")
        match event:
            case Submitted(tasks):
                numbers = [str(task.number) for task in tasks if task.number is not None]
                if numbers:
                    say(f"Got job IDs {','.join(numbers)}")
                for task in tasks:
                    if task.error is not None:
                        say_printable(f"Job {task.place} ({task.job.title}) was not accepted: {task.error}")
            case News(task, None) if task.over:
                say_printable(describe_end(task))
            case Away(None):
                warn("Ganeti answers again")
            case Away(reason):
                warn(reason)
        live(_standing(run, event.said if isinstance(event, News) else None))

    return report


def describe_end(task: Task) -> str:
    status = task.status.value if task.status else "lost"
    if task.error and task.status is JobStatus.SUCCESS:
        status = "failed"
    said = "".join(f": {text}" for text in (task.error, task.note) if text)
    return f"Job {task.number} ({task.job.title}): {status}{said}"


def _standing(run: Run, said: str | None) -> str:
    states = [task.status.value for task in run.current if task.status]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    log = f" - {on_one_line(said)[:_LOG_WIDTH]}" if said else ""
    sets = run.sets + len(run.rest) - bool(run.waiting)
    return f"jobset {run.sets} of {sets}{f': {counts}' if counts else ''}{log}"


def summary(run: Run) -> list[str]:
    """Summarise a run: numbers of jobs, remaining jobs, states of nodes."""
    done = sum(task.done for task in run.tasks)
    failed = sum(task.error is not None for task in run.tasks)
    rest = [job for jobs in run.rest for job in jobs]
    counts = {"succeeded": done, "failed": failed, "not ended": len(run.current), "not submitted": len(rest)}
    numbers = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "none"
    nodes = {node: f"  node {node} is {standing}" for node, standing in run.standings.items()}
    nodes |= {node: f"  {text}" for node, text in _changing_nodes(run).items()}
    return [f"Jobs: {numbers}", *(f"  not submitted: {job.title}" for job in rest), *nodes.values()]


def unfinished_nodes(run: Run) -> list[str]:
    """Describe the nodes that remaining jobs would have changed again, and those of jobs under way."""
    ahead = {node for jobs in run.rest for job in jobs for node in job.nodes}
    nodes = {node: f"node {node} is {text}" for node, text in run.standings.items() if node in ahead}
    return list((nodes | _changing_nodes(run)).values())


def _changing_nodes(run: Run) -> dict[str, str]:
    """Describe the jobs under way that change nodes, by node."""
    return {
        node: f"node {node}: job {task.number or 'of unknown number'} ({task.job.title}) goes on"
        for task in run.current
        for node in task.job.nodes
    }


def complaint(outcome: Mapping[str, Any]) -> str | None:
    """Describe the failure of a run from its record (:mod:`.record`).

    Returns None for a run that is done or was stopped on request.
    """
    reason, doing = outcome["reason"], outcome["going_on"]
    match outcome["ending"]:
        case Ending.FAILED.value:
            return f"Not all jobs completed successfully: {reason}"
        case Ending.CHANGED.value:
            return f"The plan does not fit the cluster any more: {reason}"
        case Ending.LOST.value:
            return f"{reason}{f'; may go on: {doing}' if doing else ''}"
        case Ending.STOPPED.value if reason != REQUESTED:
            return str(reason)
    return None


def going_on(run: Run) -> str:
    """Describe the jobs that may still run in Ganeti; empty if there are none."""
    known = ", ".join(str(task.number) for task in run.current if task.number is not None)
    hidden = sum(task.number is None for task in run.current)
    comment = f"with 'run {run.signature.run}' in their comments"
    parts = [f"jobs {known}" if known else "", f"perhaps {hidden} jobs {comment}" if hidden else ""]
    return " and ".join(part for part in parts if part)
