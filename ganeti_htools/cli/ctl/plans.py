"""The daemon's plans: lists of them, and one carried out and followed."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.cli.ctl.callers import author, caller, others
from ganeti_htools.cli.ctl.commands import Add, call, show
from ganeti_htools.cli.report.layout import escape_control_characters, fitting_table, wrapped
from ganeti_htools.cli.terminal.arguments import count, duration
from ganeti_htools.cli.terminal.messages import progress
from ganeti_htools.client import Daemon, connect
from ganeti_htools.client.methods import PLANNING
from ganeti_htools.model.errors import printable
from ganeti_htools.model.wording import moment
from ganeti_htools.program_paths import hidden_programs, typed

_ID = "Plan".ljust(12)  # as wide as an id, so that both begin at the same place
_HEADER = (_ID, "Tool", "State", "Made", "By", "Jobs", "Score", "Groups")
_WHOLE = (_ID, "Made", "Jobs", "Score")  # are never cut
_FAILED = ("failed", "interrupted")
_FINAL = ("success", "error", "canceled")  # states of jobs
_OPTION_CHARACTERS = 200  # that are shown of an option
_PAUSE = 1.0  # seconds between looks for the end of jobs
_ENDED = {"failed": 1, "interrupted": 2}  # exit status by the state that a plan ends in, else 0


def declare(add: Add) -> None:
    listed = add("plans", _plans, "List the daemon's plans and their progress.")
    which = listed.add_mutually_exclusive_group()
    which.add_argument("--waiting", action="store_true", help="only proposals of policies that wait")
    which.add_argument("--failed", action="store_true", help="only failed and interrupted plans")
    for name, run, doc in (
        ("plan", _plan, "Follow a plan until it has ended."),
        ("execute", _execute, "Carry out a plan, and follow it until it has ended."),
        ("resume", _resume, "Plan the rest of an interrupted plan anew, and carry it out."),
        ("cancel", _cancel, "Stop a plan after its current jobs."),
        ("forget", _forget, "Remove a plan that is not being carried out."),
    ):
        command = add(name, run, doc)
        command.add_argument("plan", metavar="ID", help="the plan's id, or the beginning of it")
        if name in ("execute", "resume"):
            command.flag("--wait-for-nodes", "wait for nodes that are in use but do not report")
            command.add_argument("--parallel", type=count, metavar="N", help="have at most N unfinished jobs")
        if name == "cancel":
            command.flag("--now", "do not wait for the current jobs")
        if name == "forget":
            rest = "its policy proposes nothing in this node group for this time, like 7d, unless N+1 is lost"
            command.add_argument("--for", dest="seconds", type=duration, metavar="TIME", help=rest)


def _plans(options: Namespace) -> int:
    plans = call(options, "plans")
    if options.waiting or options.failed:
        plans = list(filter(is_waiting if options.waiting else has_failed, plans))
    elif not options.json:
        for line in turns(escape_control_characters(call(options, "status")["planning"])):
            print(line)
    return show(options, plans, table)


def _plan(options: Namespace) -> int:
    connect(options.socket)
    return _follow(options)


def _execute(options: Namespace, shown: Any = None) -> int:
    call(options, "follow", {"plan": options.plan})
    # Without the option, the plan waits for nodes if it was made with that.
    wait = options.wait_for_nodes or None
    Daemon(options.socket).execute(options.plan, wait_for_nodes=wait, parallel=options.parallel)
    return _follow(options, shown)


def _resume(options: Namespace) -> int:
    connect(options.socket)
    said = options.json
    while jobs := under_way(call(options, "follow", {"plan": options.plan})):
        if not said:
            print(f"waiting for the end of {printable(', '.join(jobs))}", flush=True)
        said = True
        time.sleep(_PAUSE)
    made = call(options, "resume", {"plan": options.plan}, PLANNING)
    if not options.json:
        print(wrapped("\n".join(description(escape_control_characters(made)))), flush=True)
    options.plan = made["id"]
    return _execute(options, made)


def _follow(options: Namespace, plan: Any = None) -> int:
    """Print the progress of a plan until it has ended. Return the exit status for its end.

    A ``plan`` that is given has been described.
    """
    with progress(f"plan {options.plan}") as live:
        for change in Daemon(options.socket).follow(options.plan):
            if not options.json:
                lines = [
                    *(description(escape_control_characters(change.plan)) if plan is None else ()),
                    *(line for _, line in change.lines),
                ]
                live("")
                print(*map(wrapped, lines), sep="\n", end="\n" if lines else "", flush=True)
                live(change.plan["standing"])
            plan = change.plan
    assert plan is not None
    show(options, plan, ending)
    return _ENDED.get(plan["state"], 0)


def _cancel(options: Namespace) -> int:
    answer = Daemon(options.socket).cancel(options.plan, options.now)
    return show(options, answer, lambda plan: cancelled(plan, options.now))


def _forget(options: Namespace) -> int:
    answer = call(options, "forget", {"plan": options.plan, "seconds": options.seconds})
    return show(options, answer, forgotten)


def is_waiting(plan: Mapping[str, Any]) -> bool:
    """Whether a plan is a proposal of a policy that waits to be executed."""
    return plan["state"] == "planned" and plan.get("policy") is not None


def has_failed(plan: Mapping[str, Any]) -> bool:
    return plan["state"] in _FAILED


def table(plans: Any) -> str:
    whole = [name in _WHOLE for name in _HEADER]
    text = fitting_table(_HEADER, [_row(plan) for plan in plans], whole)
    return "\n".join(line[1:].rstrip() for line in text.splitlines())


def turns(planning: Any) -> Iterator[str]:
    """Describe the plan that is being made, and those that wait, each with the one before it."""
    for each in planning:
        named, ahead = f"{each['tool']} by {caller(each['by'])}", each["behind"]
        since = f"since {time.strftime('%H:%M:%S', time.localtime(each['since']))}"
        behind = f"waits behind {ahead['tool']} by {caller(ahead['by'])}" if ahead else "is being made"
        yield f"{named} {behind}, {since}"


def _row(plan: Any) -> tuple[str, ...]:
    jobs = plan["jobs"]
    done = f"{jobs['succeeded']}/{sum(jobs.values())}"
    groups = ",".join(plan["groups"])
    by = author(plan) + others(plan)
    made = time.strftime("%m-%d %H:%M", time.localtime(plan["made"]))
    return plan["id"], plan["tool"], _state(plan), made, by, done, _score(plan, ".3g"), groups


def _state(plan: Any) -> str:
    return "waiting" if is_waiting(plan) else "dry run" if plan["state"] == "planned" else str(plan["state"])


def _score(plan: Any, form: str = ".8f") -> str:
    scores = plan["score"]["before"], plan["score"]["after"]
    return " => ".join("unknown" if score is None else f"{score:{form}}" for score in scores)


def _options(plan: Any) -> str:
    options = plan.get("options")
    if options is None:  # made by an earlier htoolsd, which kept a command line
        return f"Arguments: {' '.join(plan.get('arguments', ())) or 'none'}"
    given = ", ".join(f"{name}={_brief(json.dumps(value))}" for name, value in options.items())
    return f"Options: {given or 'none'}"


def _brief(value: str) -> str:
    """Shorten a long value, such as a request."""
    return value if len(value) <= _OPTION_CHARACTERS else f"{value[:_OPTION_CHARACTERS]}..."


def description(plan: Any) -> Iterator[str]:
    """Describe a plan: its author, its options, and its jobs if it has not begun."""
    process = "" if plan.get("policy") else f", process {plan['by']['pid']}"
    by = f"{author(plan)}{process}{others(plan)}"
    yield f"Plan {plan['id']} of {plan['tool']}, made {moment(plan['made'])} by {by}"
    if plan.get("continues"):
        yield f"It continues plan {plan['continues']}"
    yield _options(plan)
    yield f"Node groups: {', '.join(plan['groups'])}; score {_score(plan)}"
    if certificate := plan.get("certificate"):
        yield f"Judged: {': '.join([certificate['verdict'], *certificate['reasons'][:1]])}"
    if plan["state"] == "planned":
        for number, jobs in enumerate(plan["execution"]["not_submitted"], 1):
            yield f"Jobset {number}:"
            yield from (f"  {job['title']}" for job in jobs)


def under_way(plan: Any) -> list[str]:
    """Name the jobs of an interrupted plan that have not ended."""
    jobs = plan["execution"]["jobs"] if plan["state"] == "interrupted" else ()
    going = (job for job in jobs if job["error"] is None and job["status"] not in _FINAL)
    return [f"job {job['id']} ({job['title']})" for job in going]


def ending(plan: Any) -> str:
    doing = plan["execution"]["going_on"]
    why = plan["error"] or (f"may go on: {doing}" if doing else "")
    by = plan.get("cancelled_by") if plan["state"] == "stopped" else None
    return f"{plan['state']}{f' by {caller(by)}' if by else ''}{f': {why}' if why else ''}"


def forgotten(plan: Any) -> str:
    """Describe the effect of ``forget``."""
    text = f"plan {plan['id']} is removed"
    if until := plan.get("dismissed_until"):
        text += (
            f"\n{plan['policy']} does nothing in {plan['bounds']['group']} until {moment(until)}, unless N+1"
            f" is lost; htoolsctl run {plan['policy']} ends that"
        )
    return text


def cancelled(plan: Any, now: bool) -> str:
    """Describe the effect of a cancellation; ``now`` does not wait for the current jobs."""
    if not now:
        return f"plan {plan['id']} stops once its current jobs have ended"
    lines = [f"plan {plan['id']} has stopped; its current jobs go on in Ganeti"]
    if plan["left"]:
        lines += (f"  {text}" for text in plan["left"])
        again = typed(f"{plan['tool']} -D -X", hidden_programs())
        lines.append(f"{again} finishes that: it goes on with these nodes, or uses them again")
    return "\n".join(lines)
