"""Judges a plan: replays it jobset by jobset, in every order in which the jobs of a jobset may run.

A plan does not hold if a step makes anything worse than it was before the jobset, or takes an instance's
redundancy (hcheck(1), PLANS). Beyond 10 jobs not all orders are tried, but those in which a node is fullest.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ganeti_htools.backends.iallocator import read_allocation
from ganeti_htools.judge.layout import Fault, Layout, Place
from ganeti_htools.judge.plan import PlannedWork, PlanStep, read_plan, statement_of
from ganeti_htools.judge.score import score
from ganeti_htools.judge.survival import without_way_back
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.policy import violation

ALL_ORDERS = 10  # jobs of a jobset


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A promise that a plan breaks: its kind, and where. ``step`` and ``jobset`` are 0 for the whole plan."""

    kind: str
    text: str
    jobset: int = 0
    step: int = 0
    instance: str = ""
    node: str = ""

    def __str__(self) -> str:
        where = f"step {self.step}: " if self.step else f"jobset {self.jobset}: " if self.jobset else ""
        return f"{self.kind}: {where}{' '.join(filter(None, (self.instance, self.text)))}"


@dataclass(slots=True)
class Certificate:
    """The verdict about a plan. ``orders`` is the number of states that were looked at."""

    tool: str
    steps: int = 0
    jobsets: int = 0
    orders: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Describe the verdict as JSON."""
        findings = [{key: value or None for key, value in asdict(each).items()} for each in self.findings]
        return {**asdict(self), "holds": not self.findings, "findings": findings}


def judge(cluster: Cluster, document: Any) -> Certificate:
    """Judge a plan for a cluster. Raises DataError for a document that is no plan."""
    statement = statement_of(document)
    found = Certificate(statement["tool"])
    afresh = partial(Layout, cluster, statement["options"])
    try:
        plan = read_plan(statement, afresh())
    except DataError as error:
        found.findings.append(Finding("plan", str(error)))
        return found
    found.steps, found.jobsets = sum(len(jobs.steps) for jobs in plan.jobsets), len(plan.jobsets)
    if _Replay(plan, afresh, found).run():
        _compare(plan, afresh(), found)
    found.findings = sorted(set(found.findings), key=lambda each: (each.jobset, each.step, each))
    return found


class _Replay:
    def __init__(self, plan: PlannedWork, afresh: Callable[[], Layout], found: Certificate) -> None:
        self.plan, self.layout, self.afresh, self.found = plan, afresh(), afresh, found
        self.jobset, self.soft = 0, bool(plan.options.get("ignore_soft_errors"))
        self.emptied = set[str]().union(*(jobs.closes for jobs in plan.jobsets))  # some are drained last
        self.resting = set[str]()  # nodes whose maintenance the plan has begun
        self.base: dict[str, dict[str, float]] = {}  # what was wrong on nodes before the jobset
        self.close: dict[str, dict[str, int]] = {}
        kept = plan.options.get("check_redundancy", True) and plan.options.get("target_resources") != 0
        self.keeps_redundancy = plan.tool != "hbal" and kept  # what the tool promises
        self.parted = self.layout.parted()
        self.homeless = without_way_back(self.layout)
        self.exact: set[str] | None = None  # the same by the score, once it is needed

    def run(self) -> bool:
        """Replay all jobsets. The result is False if a step cannot be made."""
        layout, sets = self.layout, self.plan.jobsets
        if self.plan.options.get("action") == "end":  # instances return before the tag goes
            layout.closed -= {node for jobs in sets for node in jobs.opens if not layout.nodes[node].offline}
        for jobs in sets:
            self.jobset += 1
            if not self._fits(jobs.steps):
                return False
            layout.closed |= jobs.closes | jobs.rests
            self.resting |= jobs.rests
            self._remember({node for job in jobs.steps for node in (*job.was.nodes, *job.nodes)})
            self._orders(jobs.steps)
            for tag in layout.parted() - self.parted:
                for job in jobs.steps:
                    if tag in layout.instances[job.instance].tags:
                        self._tell("rules", f"is parted from others of {tag}", job)
            for name in [name for node in jobs.leaves for name in layout.figures(node).primaries]:
                self._tell("capacity", f"{name} is on a node that goes offline")
            layout.unknown_size |= {node for node in jobs.opens if layout.nodes[node].offline}
            layout.closed -= jobs.opens
            self._redundancy(jobs.steps)
        lost = sorted(without_way_back(layout, self.resting) - self.homeless)
        if lost and not self.keeps_redundancy:
            self.found.notes.append(f"without their redundancy afterwards: {', '.join(lost)}")
        if self.plan.room:
            self._make_room()
        return True

    def _remember(self, nodes: Iterable[str]) -> None:
        """Remember what is wrong before a jobset."""
        self.base = {}
        for node in nodes:
            there = self.layout.figures(node)
            self.base[node] = {"N+1": math.inf if there.reserved >= there.now.free else 0.0}
            for fault in self.layout.faults(node):  # a node that fails N+1 may go on failing (hbal(1))
                self.base[node][_key(fault)] = math.inf if fault.kind == "n+1" else fault.excess
        self.close = {name: self.layout.too_close(name) for name in self.layout.instances}

    def _tell(self, kind: str, text: str, step: PlanStep | None = None, node: str = "") -> None:
        where = (self.jobset, step.number, step.instance) if step else (self.jobset, 0, "")
        self.found.findings.append(Finding(kind, text, *where, node))

    def _fits(self, jobs: Sequence[PlanStep]) -> bool:
        """Whether the jobs are what the plan says, and may run at the same time."""
        layout, before = self.layout, len(self.found.findings)
        users: dict[str, PlanStep] = {}
        for job in jobs:
            row, place = layout.instances[job.instance], layout.places[job.instance]
            if place != job.was:
                self._tell("plan", f"is on {place}, not on {job.was}", job)
                continue
            for operation in job.operations:
                if operation.kind == "f" and place.secondary is None:
                    self._tell("plan", "has no secondary to fail over to", job)
                    break
                place = operation.after(place)
            if place != job.now:
                self._tell("plan", f"the commands lead to {place}, not to {job.now}", job)
            if len(set(place.nodes)) < len(place.nodes):
                self._tell("plan", "has the same node twice", job)
            if "htools:fixed" in row.tags:
                self._tell("rules", "is htools:fixed", job)
            for node in {*job.was.nodes, *job.nodes}:
                other = users.setdefault(node, job)
                if other is not job and not layout.together(other.instance, job.instance):
                    self._tell("jobset", f"shares {node} with step {other.number} of its jobset", job, node)
        return len(self.found.findings) == before

    def _orders(self, jobs: Sequence[PlanStep]) -> None:
        """Run the jobs in all orders: all subsets that may have ended. The last one is all of them."""
        layout, done, coming = self.layout, set[int](), defaultdict[str, list[str]](list)
        for job in jobs:
            coming[job.now.primary].append(job.instance)
        paired = layout.units.classes or any(job.was.secondary or job.now.secondary for job in jobs)
        layout.coming = coming  # all who come back with memory taken on both nodes do so in all orders
        self.sure = not (paired or without_way_back(layout, self.resting) - self.homeless)
        layout.coming = {}
        for wanted in _subsets(jobs):
            for at in sorted(done - wanted):
                layout.move(jobs[at].instance, jobs[at].was)
            for at in sorted(wanted - done):
                self._perform(jobs[at])
            touched = {node for at in wanted ^ done for node in (*jobs[at].was.nodes, *jobs[at].nodes)}
            done = wanted
            self.found.orders += 1
            self._look(touched, [jobs[at] for at in sorted(done)])
        if len(jobs) > ALL_ORDERS:
            text = f"{len(jobs)} jobs, so each node at its fullest instead of all orders"
            self.found.notes.append(f"jobset {self.jobset}: {text}")

    def _perform(self, job: PlanStep) -> None:
        """Run the operations of a job, with a look at what must hold in between."""
        layout = self.layout
        for operation in job.operations:
            was = layout.places[job.instance]
            now = operation.after(was)
            source, target = was.primary, (now.secondary or "") if operation.kind == "r" else now.primary
            for fault in layout.may_receive(job.instance, target):
                if operation.kind != "f" or fault.kind == "groups":  # it may break rules where it already is
                    self._tell(fault.kind, f"{target} {fault.text}", job, target)
            migrates = operation.kind in ("f", "fa") and not layout.nodes[source].offline
            if migrates and not layout.may_migrate(source, target):
                self._tell("policy", f"migration tags forbid {source} to {target}", job, target)
            self._group(job, target)
            layout.move(job.instance, now)
            for fault in self._worse(target):
                if fault.kind == "capacity":
                    self._tell(fault.kind, f"{target}: {fault.text}", job, target)

    def _group(self, job: PlanStep, target: str) -> None:
        layout, row = self.layout, self.layout.instances[job.instance]
        old, new = layout.group_of(job.was.primary), layout.group_of(target)
        if new.uuid in {layout.group_of(node).uuid for node in job.was.nodes}:
            return
        missing = {nic.network for nic in row.nics if nic.network} - {*new.networks}
        for wrong, why in (
            (self.plan.tool != "hregroup", "leaves its node group"),
            ("htools:nointergroup" in (*layout.tags, *old.tags, *new.tags), "htools:nointergroup forbids it"),
            (new.alloc_policy.value == "unallocable", "the group is unallocable"),
            (missing, f"the group lacks network {', '.join(sorted(missing))}"),
        ):
            if wrong:
                self._tell("groups", f"goes to group {new.name}: {why}", job, target)
        if (refused := violation(row.demand, new.ipolicy, layout.nodes[target].excl_stor)) is not None:
            self._tell("policy", f"group {new.name} does not allow it ({refused.value})", job, target)

    def _worse(self, node: str) -> list[Fault]:
        """Faults of a node that it did not have before the jobset, or had less of."""
        base = self.base.get(node, {})
        return [fault for fault in self.layout.faults(node) if fault.excess > base.get(_key(fault), 0.0)]

    def _look(self, touched: Iterable[str], done: Sequence[PlanStep]) -> None:
        """Look at the nodes that a job has touched, and at the redundancy of all instances."""
        layout = self.layout
        for node in touched:
            here = [job for job in done if node in job.nodes]
            left = {node for job in here for node in job.was.nodes}
            # Instances leave nodes that take none whatever the soft limits are (docs/differences.md), but N+1
            # holds when the plan itself empties these nodes, except for hmaintain(1).
            soft = self.soft or not left.isdisjoint(self.emptied | layout.closed)
            n1 = self.soft or self.plan.tool == "hmaintain" or any(layout.nodes[node].closed for node in left)
            for fault in self._worse(node):
                if not (fault.soft and (n1 if _key(fault) == "N+1" else soft)):
                    self._tell(fault.kind, f"{node}: {fault.text}", here[-1] if here else None, node)
        for job in done:
            for tag, count in layout.too_close(job.instance).items():
                if count > self.close[job.instance].get(tag, 0) and job.now.primary != job.was.primary:
                    self._tell("rules", f"is too close to others of {tag}", job, job.now.primary)
        if not self.sure:
            self._redundancy(done, middle=True)

    def _redundancy(self, done: Sequence[PlanStep], middle: bool = False) -> None:
        lost = without_way_back(self.layout, self.resting) - self.homeless if self.keeps_redundancy else set()
        if lost:  # instances may only have changed places with others
            if self.exact is None:
                self.exact = without_way_back(self.afresh(), exact=True)
            now = without_way_back(self.layout, self.resting, True)
            lost = set() if middle and len(now) <= len(self.exact) else now - self.exact
        for name in sorted(lost):
            step = next((job for job in done if job.instance == name), None)
            primary = self.layout.places[name].primary
            self._tell("redundancy", f"{name} would not come back after the loss of {primary}", step, primary)

    def _make_room(self) -> None:
        """Place the new instance for which the plan makes room."""
        layout, nodes, self.jobset = self.layout, self.plan.room, 0
        request = read_allocation(self.plan.options["request"])
        row = replace(request.placement.instance, pnode=nodes[0], snode=(*nodes, None)[1])
        self._remember(nodes)
        layout.add(row)
        step = PlanStep(0, row.name, Place(*nodes), Place(*nodes), ())
        for node in nodes:
            for fault in (*layout.may_receive(row.name, node), *self._worse(node)):
                if not (fault.soft and self.soft):
                    self._tell(fault.kind, f"{node}: {fault.text}", step, node)
            refused = violation(row.demand, layout.group_of(node).ipolicy, layout.nodes[node].excl_stor)
            if refused is not None:
                self._tell("policy", f"{node}: its policy refuses it ({refused.value})", step, node)
        self._redundancy([step])


def _subsets(jobs: Sequence[PlanStep]) -> Iterator[set[int]]:
    """Yield the subsets of jobs that are looked at; each differs little from the one before."""
    everything = set(range(len(jobs)))
    if len(jobs) <= ALL_ORDERS:
        for code in (number ^ number >> 1 for number in range(1, 1 << len(jobs))):
            yield {at for at in everything if code >> at & 1}
    else:
        for node in sorted({node for job in jobs for node in job.nodes}):
            yield {at for at in everything if node in jobs[at].nodes}
    yield everything


def _key(fault: Fault) -> str:
    return fault.text.rpartition(" ")[2] if fault.kind == "exclusion" else fault.text.partition(":")[0]


def _compare(plan: PlannedWork, layout: Layout, found: Certificate) -> None:
    """Compare the announced scores and volume with those of the steps, made one after the other."""
    groups: dict[str, list[str]] = {row.name: [] for row in layout.groups.values()}
    for node in layout.nodes:
        groups[layout.group_of(node).name].append(node)

    def compare(announced: float | None, names: Iterable[str], *where: Any) -> None:
        real = sum(score(layout, groups[name]) for name in names)
        if plan.tool != "hbal" or "load" in plan.options:
            return  # no statement has the measured load
        if announced is not None and abs(announced - real) > 1e-6 * max(1.0, real):
            found.findings.append(Finding("score", f"announced {announced:.8f}, is {real:.8f}", 0, *where))

    compare(plan.score[0], plan.groups)
    disk = memory = 0
    for step in (steps := [step for jobs in plan.jobsets for step in jobs.steps]):
        row = layout.instances[step.instance]
        for operation in step.operations:
            size = sum(layout.needs[row.name].values()) if layout.units.reported else row.dsk
            disk += size if operation.kind in ("r", "m") else 0
            memory += row.mem if operation.live else 0
            layout.move(row.name, operation.after(layout.places[row.name]))
        compare(step.score, [layout.group_of(step.was.primary).name], step.number, step.instance)
    if plan.options.get("first_job_group"):
        return  # the figures are those of the whole plan
    compare(plan.score[1], plan.groups)
    cost = plan.cost or {"moves": {"": len(steps)}, "disk_mib": disk, "memory_mib": memory}
    announced = sum(cost["moves"].values()), cost["disk_mib"], cost["memory_mib"]
    kinds = "moves", "MiB of disks", "MiB of memory"
    for what, told, real in zip(kinds, announced, (len(steps), disk, memory), strict=True):
        if told != real:
            found.findings.append(Finding("volume", f"{told} {what} announced, are {real}"))
