"""The commands of ``htoolsctl`` that are about plans."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ganeti_htools.client.asking import PATIENCE, ask
from ganeti_htools.client.following import changes

# As the tools end with -X.
_PLANNING = 3600.0  # seconds; a plan of an earlier daemon is made again
_STATUS = {"failed": 1, "interrupted": 2}
_HEADER = ("Plan", "Tool", "State", "Made", "Jobs", "Score", "Groups")


def plans(options: Namespace) -> int:
    """List the plans."""
    listed: Any = ask(options.socket, "plans", {}, patience=PATIENCE)
    if options.json:
        print(json.dumps(listed, indent=2))
    else:
        rows = [_HEADER, *map(_row, listed)]
        width = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(size) for cell, size in zip(row, width, strict=True))
            print("  ".join(cells).rstrip())
    return 0


def follow(options: Namespace) -> int:
    """Tell of a plan until it has ended; the exit status tells how."""
    ask(options.socket, "status", {}, patience=PATIENCE)  # whoever goes away later is waited for
    return _follow(options)


def _follow(options: Namespace) -> int:
    plan: Any = None
    told: int | None = None  # lines of its log
    for plan in changes(options.socket, options.plan):
        if not options.json:
            lines = [*(_described(plan) if told is None else ()), *(line for _, line in plan["log"][told:])]
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
            told = len(plan["log"])
    assert plan is not None
    if options.json:
        print(json.dumps(plan, indent=2))
    else:
        doing = plan["execution"]["going_on"]
        why = plan["error"] or (f"may go on: {doing}" if doing else "")
        print(f"{plan['state']}{f': {why}' if why else ''}")
    return _STATUS.get(plan["state"], 0)


def execute(options: Namespace) -> int:
    """Have a plan carried out, and follow it."""
    wish = {"wait_for_nodes": True} if options.wait_for_nodes else {}  # or else that of who has made it
    ask(options.socket, "follow", {"plan": options.plan}, patience=PATIENCE)  # somebody is there
    ask(options.socket, "execute", {"plan": options.plan, **wish}, patience=_PLANNING)
    return _follow(options)


def cancel(options: Namespace) -> int:
    """Have a plan stopped."""
    told: Any = ask(options.socket, "cancel", {"plan": options.plan, "now": options.now}, patience=PATIENCE)
    if options.json:
        print(json.dumps(told, indent=2))
    elif options.now:
        print(f"plan {told['id']} is left; jobs that are under way go on")
    else:
        print(f"plan {told['id']} stops when the jobs under way have ended")
    return 0


def _made(plan: Any) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(plan["made"]))


def _score(plan: Any) -> str:
    scores = plan["score"]["before"], plan["score"]["after"]
    return " => ".join("not finite" if score is None else f"{score:.8f}" for score in scores)


def _row(plan: Any) -> tuple[str, ...]:
    jobs = plan["jobs"]
    count = f"{jobs['succeeded']} of {sum(jobs.values())}"
    groups = ",".join(plan["groups"])
    return plan["id"], plan["tool"], plan["state"], _made(plan), count, _score(plan), groups


def _described(plan: Any) -> Iterator[str]:
    by = plan["by"]
    yield f"Plan {plan['id']} of {plan['tool']}, made {_made(plan)} by user {by['uid']}, process {by['pid']}"
    yield f"Arguments: {' '.join(plan['arguments']) or 'none'}"
    yield f"Node groups: {', '.join(plan['groups'])}; score {_score(plan)}"
    if plan["state"] == "planned":
        for number, jobs in enumerate(plan["execution"]["not_submitted"], 1):
            yield f"Jobset {number}:"
            yield from (f"  {job['title']}" for job in jobs)
