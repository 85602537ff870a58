"""Lines that need an administrator's attention, worst first, each with the next command. Pure functions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import join
from typing import Any, NamedTuple

from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.errors import first_names
from ganeti_htools.model.inconsistencies import tag_faults
from ganeti_htools.model.maintenance_tags import maintenance_of
from ganeti_htools.model.tags import SQUEEZING
from ganeti_htools.model.types import MirrorType, Status
from ganeti_htools.model.wording import duration
from ganeti_htools.planning.maintenance.node_jobs import left_volume
from ganeti_htools.planning.repair.instance_faults import FAULTY, instance_faults
from ganeti_htools.planning.view import is_called
from htoolsd.notify.events import plan_end
from htoolsd.plans.plan import Plan, PlanState

_RECENT = 86400.0  # seconds
_LOG = "journalctl -u htoolsd -p warning"
_DOWN = (Status.ERROR_DOWN, Status.NODE_DOWN, Status.NODE_OFFLINE)  # of instances that should run
_CRITICAL = {"luxi", "down", "ledger", "hung"}  # kinds; the others are warnings


class Attention(NamedTuple):
    """A line for the administrator: its ``kind``, a sentence, and the next ``command``.

    ``names`` are all nodes, instances, plans and so on that it is about.
    """

    kind: str
    text: str
    command: str
    names: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON, with its severity."""
        return {**self._asdict(), "severity": "critical" if self.kind in _CRITICAL else "warning"}


class RowsToWatch(NamedTuple):
    """The rows of a cluster that may need attention.

    ``nodes`` are offline, drained, in maintenance or tagged by hsqueeze, each with the name of its group and
    its instances. ``down`` are the instances that should run, ``faults`` those that run and should not.
    ``iallocator`` chooses nodes for failovers, ``places`` are the nodes of each instance, ``tag_faults`` are
    lines about tags without effect.
    """

    nodes: Sequence[tuple[Node, str, Sequence[Instance]]]
    down: Sequence[Instance]
    faults: Sequence[Instance]
    iallocator: str
    places: Mapping[str, tuple[str | None, ...]]
    tag_faults: Sequence[str] = ()


def rows_to_watch(cluster: Cluster) -> RowsToWatch:
    """Collect the rows that may need attention."""
    groups = {group.uuid: group.name for group in cluster.groups}
    nodes = {
        node.name: (node, groups[node.group], list[Instance]())
        for node in cluster.nodes
        if node.closed or node.drained or SQUEEZING in node.tags
    }
    down, faults = [], []
    for row in cluster.instances:
        if row.status in _DOWN and not row.forthcoming:
            down.append(row)
        elif row.status in FAULTY:
            faults.append(row)
        for name in (row.pnode, row.snode):
            if name in nodes:
                nodes[name][2].append(row)
    places = {row.name: (row.pnode, row.snode) for row in cluster.instances}
    return RowsToWatch(
        list(nodes.values()), down, faults, cluster.iallocator or "hail", places, tuple(tag_faults(cluster))
    )


def attention(
    status: Mapping[str, Any], watched: RowsToWatch | None, plans: Iterable[Plan], now: float
) -> list[Attention]:
    """Return what needs attention; ``status`` is the rest of the daemon's answer to the method ``status``.

    ``watched`` are the rows of the cluster, None while it is unknown.
    """
    plans = list(plans)
    found = list(_of_ganeti(status))
    if watched is not None and status["cluster"]["master"]:
        found += _of_instances(_settled(watched, status["cluster"]), set(status["cluster"]["silent"]))
        found += _of_groups(status["groups"] or ())
    found += _of_failed_plans(plans)
    if watched is not None and status["cluster"]["master"]:
        found += _of_left_volumes(plans, watched.places, now)
        busy = {group for plan in plans if plan.state.going for group in plan.facts["groups"]}
        found += _of_nodes(watched, set(status["cluster"]["silent"]), busy)
        if faults := watched.tag_faults:
            more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
            found.append(Attention("tag", f"{faults[0]}{more}", "hcheck -D"))
    found += _of_policies(status["policies"])
    found += _of_files(status)
    found += _of_tasks(status["defects"], now)
    found += _of_notifications(status["notify"])
    found += _of_load(status.get("load"))
    found += _of_decisions(status["decisions"], now)
    found += _of_proposals(plans)
    return found


def _of_ganeti(status: Mapping[str, Any]) -> Iterator[Attention]:
    luxi, cluster = status["luxi"], status["cluster"]
    if luxi["state"] == "unreachable":
        yield Attention("luxi", f"luxid cannot be asked: {luxi['error']}", "systemctl status ganeti-luxid")
    elif cluster["master"] and cluster["nodes"] is not None and cluster["late"]:
        yield Attention("late", "the data about the cluster is older than it should be", "htoolsctl refresh")
    if cluster["master"] and cluster["obstacle"]:
        yield Attention("rival", cluster["obstacle"], "systemctl status htoolsd")
    if cluster["master"] and cluster["silent"]:
        text = f"{first_names(cluster['silent'])}: no report; counted as offline"
        yield Attention("silent", text, "gnt-cluster verify", cluster["silent"])


def _settled(watched: RowsToWatch, status: Mapping[str, Any]) -> RowsToWatch:
    """Leave out instances on which a job works, or worked since their node reported.

    Ganeti changes what it wants of an instance before it starts or stops the instance.
    """
    busy = {name for job in status["jobs"] for name in re.findall(r"\(([^)]*)\)", job["summary"])}

    def settled(rows: Sequence[Instance]) -> list[Instance]:
        kept = (row for row in rows if row.pnode not in status["updating"])
        return [row for row in kept if not any(is_called(row.name, name) for name in busy)]

    return watched._replace(down=settled(watched.down), faults=settled(watched.faults))


def _of_instances(watched: RowsToWatch, silent: set[str]) -> Iterator[Attention]:
    found: dict[str, tuple[list[str], list[str]]] = {}
    for row in watched.down:
        why, command = _way_up(row, watched, silent)
        found.setdefault(why, ([], command))[0].append(row.name)
    for why, (names, command) in sorted(found.items(), key=lambda each: not each[0]):
        are = "is" if len(names) == 1 else "are"
        yield Attention("down", f"{first_names(names)} {are} down and should run{why}", join(command), names)
    for fault in instance_faults(watched.faults, watched.iallocator):
        yield Attention(*fault)


def _way_up(row: Instance, watched: RowsToWatch, silent: set[str]) -> tuple[str, list[str]]:
    """Describe what keeps an instance down, and return the first command on the way up."""
    drained = {node.name for node, _, _ in watched.nodes if node.drained}
    lost = {node.name for node, _, _ in watched.nodes if node.offline} - drained
    nodes = [name for name in (row.pnode, row.snode) if name is not None]
    if dead := [name for name in nodes if name in silent]:
        command = ["gnt-node", "modify", "--offline=yes", "--auto-promote", dead[0]]
        return f"; {dead[0]} does not report and is not set offline", command
    if row.pnode not in lost:
        return "", ["gnt-instance", "startup", row.name]
    mirror = row.template.mirror
    if mirror is MirrorType.NONE or row.snode in lost:
        command = ["gnt-node", "modify", "--offline=no", row.pnode]
        return f"; {row.pnode} is offline and has to come back: no other node has the data", command
    if mirror is MirrorType.INTERNAL and row.snode in drained:
        return f"; its secondary {row.snode} is drained", ["gnt-node", "modify", "--drained=no", row.snode]
    chosen = ["-I", watched.iallocator] if mirror is MirrorType.EXTERNAL else []
    return " on nodes that are offline", ["gnt-instance", "failover", *chosen, row.name]


def _of_groups(groups: Iterable[Mapping[str, Any]]) -> Iterator[Attention]:
    for group in groups:
        name, failing, lost = group["name"], group["failing"], group["unrecoverable"]
        if failing:
            fails = f"{first_names(failing)} {'fails' if len(failing) == 1 else 'fail'} N+1"
            text = f"group {name}: {fails}, with {first_names(group['pressing'])}"
            yield Attention("n1", text, join(["hbal", "-D", "-G", name]), failing)
        if nodes := lost["nodes"]:
            without = " or ".join(nodes) if len(nodes) == 2 else first_names(nodes)
            text = f"group {name}: without {without}, {first_names(lost['instances'])} would not come back"
            command = join(["hcheck", "-D", f"--what-if-lost={nodes[0]}"])
            yield Attention("redundancy", text, command, nodes)
        if nodes := group["conflicting"]["nodes"]:
            has = f"{first_names(nodes)} {'has' if len(nodes) == 1 else 'have'}"
            tags = first_names(group["conflicting"]["tags"])
            text = f"group {name}: {has} instances with the same exclusion tag ({tags})"
            yield Attention("conflict", text, join(["hbal", "-D", "-G", name]), nodes)


def _of_failed_plans(plans: Iterable[Plan]) -> Iterator[Attention]:
    for plan in plans:
        if plan.state in (PlanState.FAILED, PlanState.INTERRUPTED) and not plan.seen:
            text = plan_end(plan.id, plan.facts["tool"], plan.state, plan.error)
            command = "plan" if plan.obstacle_to_resuming() else "resume"
            yield Attention("plan", text, f"htoolsctl {command} {plan.id}", [plan.id])


def _of_left_volumes(
    plans: Iterable[Plan], places: Mapping[str, tuple[str | None, ...]], now: float
) -> Iterator[Attention]:
    """Name them for a day, also if a tool has shown the failure, until the instance is there after all.

    Then its disks may have these names, and have the tag by which the command chooses.
    """
    recent = [plan for plan in plans if plan.ended is not None and now - plan.ended < _RECENT]
    errors = [task.error for plan in recent for task in plan.run.failed if task.error is not None]
    left = {each.removal(): each for each in map(left_volume, errors) if each is not None}
    for command, (volume, node, instance) in left.items():
        if instance in places and node not in places[instance]:
            text = f"{node} still has volume {volume} of {instance}, with which moves of it to {node} fail"
            yield Attention("volume", text, command, [volume])


def _of_nodes(watched: RowsToWatch, silent: set[str], busy: set[str]) -> Iterator[Attention]:
    nodes = [(node, group, names) for node, group, names in watched.nodes if group not in busy]
    if left := [node.name for node, _, _ in nodes if SQUEEZING in node.tags]:
        text = f"{first_names(left)}: an hsqueeze works there, or was interrupted ({SQUEEZING})"
        yield Attention("squeezing", text, "hsqueeze -D", left)
    if left := [node.name for node, _, _ in nodes if maintenance_of(node.tags).runs]:
        text = f"{first_names(left)}: an hmaintain works there, or was interrupted"
        yield Attention("maintenance", text, "hmaintain status -D", left)
    for node, group, rows in nodes:
        if rows and node.name not in silent and not node.in_maintenance and SQUEEZING not in node.tags:
            who = first_names([row.name for row in rows])
            text = f"{node.name} is {node.state.phrase} and still has {who}"
            way = ["hbal", "-D", "-E", "-G", group]
            if all(row.template.mirror is MirrorType.NONE for row in rows):  # which stay there
                way = ["gnt-node", "modify", f"--{'drained' if node.drained else 'offline'}=no", node.name]
            yield Attention("node", text, join(way), [node.name])


def _of_policies(policies: Iterable[Mapping[str, Any]]) -> Iterator[Attention]:
    for policy in policies:
        if policy["mode"] != "off" and policy["health"] == "switched off":
            name, why = policy["name"], policy["error"]
            groups = policy["off"]
            where = f" in group{'s' * (len(groups) > 1)} {first_names(groups)}" if all(groups) else ""
            text = f"policy {name} has switched itself off{where} after failed plans: {why}"
            yield Attention("policy", text, f"htoolsctl run --forget-failures {name}", [name])
        for key, names in policy["unknown"].items() if policy["mode"] != "off" else ():
            ends = "the policy acts nowhere" if policy["acts_in"] == [] else "left out"
            text = f"policy {policy['name']}: {key}: no such name: {first_names(names)}; {ends}"
            yield Attention("unknown", text, f"htoolsctl policies --explain {policy['name']}", names)
        if groups := policy["lacking"]:
            lack = f"group {groups[0]} lacks" if len(groups) == 1 else f"{first_names(groups)} lack"
            text = f"not enough standby nodes: {lack} minimal resources with all of them up"
            yield Attention("standby", text, "hsqueeze -D -v -v", groups)


def _of_files(status: Mapping[str, Any]) -> Iterator[Attention]:
    ledger, history, reload = status["ledger"], status["history"], status["reload"]
    if ledger["error"]:
        yield Attention("ledger", f"the ledger cannot be used: {ledger['error']}", _LOG)
    elif ledger["following"]:
        yield Attention("ledger", f"the ledger is not updated: {ledger['following']}", _LOG)
    if ledger["over_capacity"]:
        text = f"claims that exceed the capacity of their provider: {ledger['over_capacity']}"
        yield Attention("capacity", text, "htoolsctl usage")
    if history["error"]:
        yield Attention("history", f"the history cannot be written: {history['error']}", _LOG)
    if history["damaged"]:
        text = f"damaged entries of the history are left out: {history['damaged']}"
        yield Attention("history", text, _LOG)
    if aside := status["set_aside"]:
        text = f"damaged files were set aside: {first_names(aside)}"
        yield Attention("damaged", text, join(["ls", "-l", *aside]), aside)
    if (http := status["http"])["error"]:
        yield Attention("http", f"HTTP does not listen at {http['listen']}: {http['error']}", _LOG)
    if reload["error"]:
        text = f"the new configuration was rejected, the old one is in use: {reload['error']}"
        check = join(["htoolsd", "--config", reload["path"], "--check-config"]) if reload["path"] else _LOG
        yield Attention("reload", text, check)
    if reload["waiting"]:
        text = f"changed keys need a restart: {first_names(reload['waiting'])}"
        yield Attention("restart", text, "systemctl restart htoolsd", reload["waiting"])


def _of_tasks(defects: Iterable[Mapping[str, Any]], now: float) -> Iterator[Attention]:
    for each in defects:
        if now - each["time"] < _RECENT:
            times = f", {each['count']} times so far" if each["count"] > 1 else ""
            text = f"task {each['task']} began again after a defect{times}: {each['error']}"
            yield Attention("defect", text, _LOG, [each["task"]])


def _of_notifications(notify: Mapping[str, Any]) -> Iterator[Attention]:
    if notify["error"]:
        text = f"notifications are not delivered: {notify['error']}"
        yield Attention("notify", text, "htoolsctl notify --test")


def _of_load(load: Mapping[str, Any] | None) -> Iterator[Attention]:
    if load is None:
        return
    if errors := load["errors"]:
        more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
        yield Attention("load", f"load is not measured: {errors[0]}{more}", "htoolsctl load", errors)
    elif load["late"]:
        text = f"load was last measured {duration(load['age_s'])} ago"
        yield Attention("load", text, "htoolsctl load")
    if load["unused"] and not load["learning"]:
        missing = f"; unknown: {first_names(load['missing'])}" if load["missing"] else ""
        yield Attention("unused", f"load is not used: {load['unused']}{missing}", "htoolsctl load")
    if wrong := load["impossible"]:
        text = f"impossible load is ignored, of {first_names(wrong)}"
        yield Attention("impossible", text, "htoolsctl load", wrong)


def _of_decisions(decisions: Mapping[str, Any], now: float) -> Iterator[Attention]:
    if decisions["lost"]:
        yield Attention("hung", f"decisions that do not end: {decisions['lost']}", _LOG)
    if decisions["alone"] and now - decisions["last_alone"] < _RECENT:
        text = f"decisions without the daemon and its claims: {decisions['alone']}, the last within a day"
        yield Attention("fallback", text, "journalctl -t htoolsd")


def _of_proposals(plans: Iterable[Plan]) -> Iterator[Attention]:
    for plan in plans:
        if plan.proposed:
            text = f"plan {plan.id} of policy {plan.facts['policy']} waits to be executed"
            yield Attention("proposal", text, f"htoolsctl plan {plan.id}", [plan.id])
