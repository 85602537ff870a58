"""Policies of the daemon and their decisions."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.ctl.commands import Add, call, show
from ganeti_htools.client import connect
from ganeti_htools.client.methods import PLANNING
from ganeti_htools.model.wording import counted, moment, size


def declare(add: Add) -> None:
    doc = "List the policies: mode, last and next decision, remaining budget."
    explain = "explain what a policy would do now, and why it does not"
    add("policies", _policies, doc).add_argument("--explain", metavar="POLICY", help=explain)
    wanted = add("run", _run, "Let a policy decide now; do not wait for the decision.")
    wanted.add_argument("policy", metavar="POLICY", help="the policy, like rebalance")
    wanted.flag("--forget-failures", "switch the policy on again after failed plans")


def _policies(options: Namespace) -> int:
    if options.explain is None:
        return show(options, call(options, "policies"), summaries)
    connect(options.socket)
    return show(options, call(options, "explain", {"policy": options.explain}, PLANNING), explanation)


def _run(options: Namespace) -> int:
    arguments = {"policy": options.policy, "forget_failures": options.forget_failures or None}
    answer = call(options, "run", arguments)
    return show(options, answer, lambda told: considered(options.policy, told))


def summaries(policies: Any) -> str:
    """Format the answer to ``policies``."""
    return "\n".join(line for policy in policies for line in _summary(policy))


def explanation(told: Any) -> str:
    """Format the answer to ``explain``."""
    groups = (line for group in told["groups"] for line in _group(told["name"], group))
    return "\n".join([*_summary(told), *groups])


def considered(name: str, told: Any) -> str:
    """Format the answer to ``run``."""
    if not told["master"]:
        return "this is not the master node, so nothing is done"
    return f"{name} is off" if told["mode"] == "off" else f"{name} is being considered"


def line(decision: Mapping[str, Any]) -> str:
    where = f" in {decision['group']}" if decision["group"] else ""
    plan = f", plan {decision['plan']}" if decision["plan"] else ""
    before, after = decision["score"]["before"], decision["score"]["after"]
    score = "" if before is None else f" (score {_score(before)}{_becomes(after)})"
    told = f"{decision['outcome']}: {decision['reason']}{plan}{score}"
    return f"{_title(decision)}{where} ({decision['trigger']}) {told}"


def _title(told: Mapping[str, Any]) -> str:
    name, remedy = told["policy"], told["remedy"]
    return name if remedy == name else f"{name} ({remedy})"


def _becomes(score: float | None) -> str:
    return "" if score is None else f" => {_score(score)}"


def _score(score: float | None) -> str:
    return "not finite" if score is None else fixed(score, 8)


def _summary(policy: Mapping[str, Any]) -> Iterator[str]:
    left, due = policy["left"], policy["next"]
    failed = counted(policy["failed"], "failed plan")
    state = f"switched off after {failed}" if policy["off"] else policy["mode"]
    soon = f"; next {moment(due)}" if due is not None else ""
    rest = f"{counted(left['moves'], 'move')} and {size(left['mib'])}"
    yield f"{policy['name']}: {state}{soon}; {rest} left of the day"
    if policy["error"]:
        yield f"  failed in a row: {policy['failed']}, the last one: {policy['error']}"
    for key, names in policy["unknown"].items():
        yield f"  {key}: no such name: {', '.join(names)}"
    for decision in policy["last"]:
        yield f"  {moment(decision['time'])}  {line(decision)}"


def _group(policy: str, group: Mapping[str, Any]) -> Iterator[str]:
    lost = f", {counted(group['n1'], 'node')} not N+1" if group["n1"] else ""
    what = "" if group["remedy"] == policy else f", {group['remedy']}"
    yield f"Now in {group['group']}{what}: score {_score(group['score']['before'])}{lost}"
    for held in group["held"]:
        yield f"  blocked by {held['condition']}: {held['reason']}"
    if group["powered"]:
        yield f"  {group['remedy']}: {', '.join(group['powered'])}"
    yield from (f"  {repair}" for repair in group["repairs"])
    if group["moves"]:
        score = _score(group["score"]["before"]) + _becomes(group["score"]["after"])
        yield f"  {counted(len(group['moves']), 'move')}, {size(group['mib'])}, score {score}:"
    for move in group["moves"]:
        yield f"    {move['instance']}: {':'.join(move['from'])} => {':'.join(move['to'])}"
