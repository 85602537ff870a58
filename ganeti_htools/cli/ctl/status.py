"""State of the daemon and of what it follows."""

import json
import sys
import textwrap
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ganeti_htools import streams
from ganeti_htools.cli.ctl import load, witness
from ganeti_htools.cli.ctl.commands import Add, asking, call, show
from ganeti_htools.cli.ctl.plans import turns
from ganeti_htools.cli.report import storage
from ganeti_htools.cli.report.layout import columns, first_of
from ganeti_htools.cli.report.maintenance_marks import maintenance_line, roll_line
from ganeti_htools.client import connect
from ganeti_htools.client.methods import PLANNING
from ganeti_htools.files import write_text
from ganeti_htools.model.wording import counted, duration, size

_COUNTS = ("served", "unsatisfied", "failed", "refused", "abandoned", "given_up", "broken")
_LATE = 10  # seconds that the ledger may be behind without a remark
_DRAWING = 40.0  # seconds; the daemon gives up earlier
_METRICS = 15.0  # seconds; several waits of the daemon, and the first call imports a library
_REFRESHING = 400.0  # seconds; Ganeti may wait for a node for minutes


def declare(add: Add) -> None:
    add("status", asking("status", status), "Show the state of the daemon and what it has done.")
    add("refresh", _refresh, "Let the daemon ask Ganeti and all nodes again.")
    add("storage", asking("storage", _storage_text), "Show the storage units of the nodes, and the pools.")
    add("methods", asking("methods", methods), "List the methods of the daemon.")


def declare_uses(add: Add) -> None:
    """Add the commands with which others are told: files for monitoring, pages, notifications."""
    figures = add("metrics", _metrics, "Print the figures of the daemon and the cluster for Prometheus.")
    textfile = "write them to this file, as a whole, for node_exporter"
    figures.add_argument("--textfile", metavar="FILE", help=textfile)
    figures.flag("--exporter-names", "add the metrics of prometheus-ganeti-exporter")
    drawn = add("report", _report, "Write the state of the cluster and the history as an HTML page.")
    drawn.add_argument("--html", metavar="FILE", help="write the page to this file, as a whole")
    notify = add("notify", _notify, "Show the state of notifications.")
    notify.flag("--test", "send a test now, and show what happened")


def _metrics(options: Namespace) -> int:
    answer = call(options, "metrics", {"exporter_names": options.exporter_names or None}, _METRICS)
    if options.textfile is None and not options.json:
        sys.stdout.write(answer["text"])
        return 0
    return _write(options, options.textfile, answer, "text")


def _report(options: Namespace) -> int:
    if options.html is None and not options.json:
        options.parser.error("expected --html=FILE, or --json")
    return _write(options, options.html, call(options, "report", patience=_DRAWING), "html")


def _write(options: Namespace, path: str | None, answer: Any, key: str) -> int:
    """Write a text of an answer to a file if there is one, and print the answer with ``--json``."""
    if path is not None:
        write_text(path, answer[key])
    if options.json:
        print(json.dumps(answer, indent=2))
    return 0


def _notify(options: Namespace) -> int:
    if not options.test:
        return show(options, call(options, "status")["notify"], notifications)
    answer = call(options, "notify", patience=PLANNING)
    show(options, answer, notification_outcome)
    return 1 if answer["error"] else 0


def _refresh(options: Namespace) -> int:
    connect(options.socket)
    answer = call(options, "refresh", patience=_REFRESHING)
    return show(options, answer, lambda state: ages(state["ages"]))


def _storage_text(answer: Any) -> str:
    return storage.text(answer) + ages(answer["ages"])


def status(answer: Any) -> str:
    return "\n".join(_status(answer))


def _status(answer: Any) -> Iterator[str]:
    luxi, decisions = answer["luxi"], answer["decisions"]
    for each in answer.get("attention", ()):
        yield from attention_lines(each, streams.width())
    version = ", ".join(answer[key] for key in ("version", "build") if key in answer)
    yield f"htoolsd {version}, process {answer['pid']}, up {duration(answer['uptime_s'])}"
    yield f"  socket     {answer['socket']} ({answer['connections']} connected)"
    why = f": {luxi['error']}" if luxi["error"] else ""
    yield f"  luxi       {luxi['state']} for {duration(time.time() - luxi['since'])}{why} ({luxi['path']})"
    if answer["cluster"].get("master") is False:
        yield f"  node       {answer['cluster']['node']}; the master is {answer['cluster']['master_node']}"
    yield f"  cluster    {_cluster(answer['cluster'])}"
    if answer["cluster"].get("ganeti_rules"):
        yield f"  rules      of Ganeti {answer['cluster']['ganeti_rules']}"
    if answer["cluster"]["silent"]:
        yield f"  silent     {', '.join(answer['cluster']['silent'])}: no report; counted as offline"
    for node in answer.get("maintenance", ()):
        yield f"  maintained {maintenance_line(node)}"
    for roll in answer.get("rolls", ()):
        yield f"  rolling    {roll_line(roll)}"
    storage = answer["cluster"].get("storage")
    if storage and storage["mode"] != "never":
        yield f"  storage    {_storage(storage)}"
    if answer.get("groups"):
        yield f"  groups     {_groups(answer['groups'])}"
    claims = answer.get("claims")
    if claims and claims["living"]:
        yield f"  claims     {claims['living']} active"
    if answer["plans"]:
        yield f"  plans      {', '.join(f'{count} {state}' for state, count in answer['plans'].items())}"
    for turn in turns(answer.get("planning", ())):
        yield f"  planning   {turn}"
    yield from _policies(answer.get("policies") or ())
    kept = answer.get("history")
    if kept and kept["error"]:
        yield f"  history    in memory only ({kept['waiting']} waiting, {kept['lost']} lost): {kept['error']}"
    if answer.get("load"):
        yield f"  load       {load.state(answer['load'])}"
    if answer.get("witness", {}).get("program"):
        yield f"  witness    {witness.summary(answer['witness'])}"
    if answer.get("recording", {}).get("mib"):
        yield f"  recording  {_recording(answer['recording'])}"
    if answer.get("notify", {}).get("way"):
        yield f"  notify     {notifications(answer['notify'])}"
    ledger = answer.get("ledger")
    if ledger:
        yield f"  ledger     {_ledger(ledger)}"
    counts = (f"{decisions[name]} {name.replace('_', ' ')}" for name in _COUNTS)
    yield f"  decisions  {', '.join(counts)}"
    if decisions["alone"]:
        ago = duration(time.time() - decisions["last_alone"])
        yield f"  fallback   {decisions['alone']} decided without the daemon, the last {ago} ago"
    now = f"{decisions['waiting']} waiting, {decisions['running']} running"
    if decisions["running"]:
        now += f" for {duration(decisions['running_ms'] / 1000)}"
    if decisions["lost"]:
        now += f", {decisions['lost']} given up but still running"
    yield f"  now        {now}"
    if decisions["last_ms"] is not None:
        yield "  time       " + ", ".join(
            f"{name} {decisions[f'{name}_ms']:.1f} ms" for name in ("last", "median", "slowest")
        )
    kept = f"{decisions['kept_nodes']} nodes and {decisions['kept_instances']} instances of the last request"
    yield f"  memory     {answer['memory_mib']:.0f} MiB, with {kept}"


def attention_lines(each: Any, width: int | None) -> list[str]:
    """Describe what needs attention, and the next command. A command that does not fit has its own line.

    It is never wrapped: then it could not be copied.
    """
    line, command = f"ATTENTION  {each['text']}", f"next: {each['command']}"
    if width is None or len(f"{line}; {command}") <= width:
        return [f"{line}; {command}"]
    lines = textwrap.wrap(
        line, width, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False
    )
    return [*lines, f"{' ' * 11}{command}"]


def _cluster(cluster: Any) -> str:
    if cluster["nodes"] is None:
        return "not known yet"
    nodes, instances = counted(cluster["nodes"], "node"), counted(cluster["instances"], "instance")
    known = f"{nodes}, {instances}; {ages(cluster['ages'])}"
    return known + " (late)" if cluster["late"] else known


def _groups(groups: Any) -> str:
    """Count the groups by health, and name the unhealthy groups."""
    found: dict[str, list[str]] = {}
    for group in groups:
        found.setdefault(group["health"], []).append(group["name"])
    return ", ".join(
        f"{len(names)} {word}" + (f" ({first_of(names)})" if word != "healthy" else "")
        for word, names in found.items()
    )


def notifications(notify: Any) -> str:
    if notify["way"] is None:
        return "off: [notify] has neither program nor url"
    facts = [notify["way"]]
    if notify["delivered"] is not None:
        facts.append(f"last call {duration(time.time() - notify['delivered'])} ago")
    if notify["waiting"]:
        facts.append(f"{counted(notify['waiting'], 'event')} waiting")
    if notify["dropped"]:
        facts.append(f"{notify['dropped']} dropped")
    return ", ".join(facts) + (f"; not delivered: {notify['error']}" if notify["error"] else "")


def notification_outcome(answer: Any) -> str:
    if answer["error"]:
        return f"not delivered: {answer['error']}"
    kind = "exit" if answer["way"].startswith("/") else "HTTP"
    line = f": {answer['line']}" if answer["line"] else ""
    return f"delivered to {answer['way']}, {kind} status {answer['status']}{line}"


def _recording(kept: Any) -> str:
    lost = f", {counted(kept['lost'], 'decision')} lost" if kept["lost"] else ""
    error = f": {kept['error']}" if kept["error"] else ""
    return f"{kept['bytes'] / (1 << 20):.1f} of {size(kept['mib'])}{lost}{error}"


def _ledger(ledger: Any) -> str:
    if ledger["error"]:
        return f"unavailable: {ledger['error']}"
    exceeding = f" ({ledger['over_capacity']} exceed the capacity)" if ledger["over_capacity"] else ""
    known = f"{counted(ledger['providers'], 'provider')}, {counted(ledger['claims'], 'claim')}{exceeding}"
    return f"{known}, {counted(ledger['conflicts'], 'conflict')} ({ledger['database']}){_behind(ledger)}"


def _behind(ledger: Any) -> str:
    """Describe how far the ledger is behind the cluster, if it is."""
    why = f": {ledger['following']}" if ledger["following"] else ""
    if ledger["lag_s"] is None:
        return f"; does not have the cluster yet{why}"
    late = ledger["lag_s"] >= _LATE or why
    return f"; lags by {duration(ledger['lag_s'])}{why}" if late else ""


def _policies(policies: Any) -> Iterator[str]:
    """List the policies in one line, those that are on with their last decision."""
    on = [policy for policy in policies if policy["mode"] != "off"]
    if policies:
        told = "; ".join(map(_policy, on))
        off = [policy["name"] for policy in policies if policy["mode"] == "off"]
        yield f"  policies   {told}{'; ' * bool(on and off)}{', '.join(off)}{' off' * bool(off)}"


def _policy(policy: Any) -> str:
    last = policy["last"]
    mode = policy["mode"] if policy["health"] == "healthy" else f"{policy['mode']}, {policy['health']}"
    if last is None:
        return f"{policy['name']} {mode}"
    ago = duration(time.time() - last["time"])
    what = "" if last["remedy"] == policy["name"] else f"{last['remedy']} "
    where = f" in {last['group']}" if last["group"] else ""
    return f"{policy['name']} {mode} ({what}{last['outcome']}{where} {ago} ago: {last['reason']})"


def _storage(storage: Any) -> str:
    if not storage["needed"]:
        return f"{storage['mode']}: not needed so far"
    why = f"; {storage['error']}" if storage["error"] else ""
    known = f"units of {counted(storage['nodes'], 'node')} known"
    return f"{known}{why}" if storage["complete"] else f"{known}, jobs ask the others{why}"


def ages(answer: Any) -> str:
    """Describe the age of each kind of data (a key)."""
    return ", ".join(f"{kind} {duration(age)} old" for kind, age in answer.items())


def methods(answer: Any) -> str:
    """Format the answer to ``methods``: each method with its version, role and arguments."""
    lines: list[str] = []
    for method in answer:
        name = f"{method['name']} {method['version']} {method.get('role', '')}"
        lines += _wrapped(name.rstrip(), method["doc"], 12)
        for name, meaning in method["arguments"].items():
            lines += _wrapped(f"  {name}", meaning, 14)
    return "\n".join(lines)


def _wrapped(name: str, text: str, column: int) -> list[str]:
    return textwrap.wrap(
        text, min(columns(), 100), initial_indent=f"{name:<{column - 1}} ", subsequent_indent=" " * column
    )
