"""The cluster as columns: what was read and everything that follows from it, ready to compute with.

:func:`derive` computes every figure once; the moves in :mod:`ganeti_htools.engine.moves` update the
figures of the nodes they touch, in place: whoever wants to keep a state works on a copy.

Two views of memory (Ganeti's design "memory over-commitment"): the state of record is what the
configuration says (``n_mem`` for the node itself, ``i_mem`` for its running instances), the state of
the world is what the node reports (``f_mem``). Their difference ``x_mem`` is unaccounted memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.errors import on_one_line
from ganeti_htools.model.figures import Figures, tabulate
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.types import DiskTemplate, Status

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NOWHERE = -1  # the row that stands for "no node" or "no instance"


@dataclass(frozen=True, slots=True)
class Columns:
    """Figures of nodes, one array per figure; all arrays broadcast against each other.

    ``..._forth`` figures count forthcoming instances too. While a cluster has none, such a column
    *is* the plain one (the same object), and whoever computes with it need not do so twice.
    ``conflicts`` counts primary instances in excess of one per exclusion tag; ``location`` is the
    sum of the primary instances' location and unmet desired-location scores. ``load_...`` are sums
    of dynamic utilisation.
    """

    t_mem: Floats
    n_mem: Ints
    x_mem: Ints
    t_dsk: Floats
    t_cpu: Floats
    cpu_speed: Floats
    t_spindles: Ints
    lo_dsk: Ints
    hi_spindles: Floats
    vcpu_ratio: Floats
    offline: Bools
    excl_stor: Bools
    # From here on: what a placement changes.
    i_mem: Ints
    f_mem_forth: Ints
    f_dsk: Ints
    f_dsk_forth: Ints
    f_spindles: Ints
    f_spindles_forth: Ints
    u_cpu: Ints
    u_cpu_forth: Ints
    inst_spindles: Floats
    inst_spindles_forth: Floats
    r_mem: Ints
    fail_n1: Bools
    load_cpu: Floats
    load_mem: Floats
    load_dsk: Floats
    load_net: Floats
    primaries: Ints
    secondaries: Ints
    conflicts: Ints
    location: Ints

    def map(self, change: Callable[[Any], Any]) -> "Columns":
        """Every column changed alike; columns that are one object stay one object."""
        columns = _figures(self)
        done = {id(column): column for column in columns}
        done = {key: change(column) for key, column in done.items()}
        return Columns(*[done[id(column)] for column in columns])

    def take(self, rows: Ints | slice) -> "Columns":
        """The figures of some nodes."""
        return self.map(lambda column: column[rows])

    def changed(self, **new: Any) -> "Columns":
        """The same with some columns replaced. (``dataclasses.replace`` takes several times as long.)"""
        columns = dict(zip(FIGURES, _figures(self), strict=True))
        columns.update(new)
        return Columns(**columns)

    def put(self, row: int, new: "Columns") -> None:
        """Write the changing figures of one node in place, from columns of length 1."""
        for name in CHANGING:
            getattr(self, name)[row] = getattr(new, name)[0]

    @property
    def unallocated(self) -> Ints:
        """Memory guaranteed to be free (MiB): free by record, less what is unaccounted for."""
        record: Ints = self.t_mem.astype(np.int64) - self.n_mem - self.i_mem
        return record - np.maximum(self.x_mem, 0)


FIGURES = tuple(field.name for field in fields(Columns))
CHANGING = FIGURES[FIGURES.index("i_mem") :]
_figures = attrgetter(*FIGURES)


@dataclass(frozen=True, slots=True)
class Asked:
    """An instance as a placement sees it. Sizes in MiB.

    ``record_mem`` is taken from the primary's state of record, ``secondary_mem`` kept free on the
    secondary; ``vcpus`` is 0 if it is administratively offline; ``spindles`` is None if a disk does
    not tell; ``tags`` are the rows of its exclusion tags in the state's table and ``desired`` those
    of its desired locations, ``unknown_desires`` counts those no node has. ``index`` is its row, or
    NOWHERE for a new instance.
    """

    row: Instance
    mem: int
    record_mem: int
    secondary_mem: int
    dsk: int
    local: bool
    mirrored: bool
    vcpus: int
    spindles: int | None
    spindle_use: int
    tags: Ints
    desired: Ints
    unknown_desires: int
    forthcoming: bool
    index: int = NOWHERE


@dataclass(slots=True)
class State:
    """A cluster with everything derived from it.

    Columns of instances are in row order; ``pnode`` and ``snode`` are node rows. ``stamp`` says in
    which order instances came to their primary; the latest is the first to go when it is emptied.
    ``peers[p, s]`` is the memory that secondary ``s`` has to keep free in case ``p`` fails.
    ``tag_counts[t, n]`` counts primaries of node ``n`` with exclusion tag ``t``;
    ``settled_tag_counts`` leaves out forthcoming ones. ``migrates[n, m]`` is False where migration
    tags forbid going from ``n`` to ``m``, None if they forbid nothing; ``located[n, t]`` tells
    whether node ``n`` has location tag ``t``.
    """

    cluster: Cluster
    figures: Figures  # of the instances it was derived from
    nodes: dict[str, int]
    group: Ints
    policies: tuple[IPolicy, ...]  # of each node group, by row
    columns: Columns
    pnode: Ints
    snode: Ints
    stamp: Ints
    record_mem: Ints
    dsk: Ints
    template: Ints
    forthcoming: Bools
    peers: Ints
    tag_rows: dict[str, int]
    tag_counts: Ints
    settled_tag_counts: Ints
    migrates: Bools | None
    located: Bools
    location_rows: dict[str, int]

    def copy(self) -> "State":
        """A state of its own to try things on."""
        tag_counts = self.tag_counts.copy()
        alike = self.settled_tag_counts is self.tag_counts
        return replace(
            self,
            columns=self.columns.map(np.copy),
            pnode=self.pnode.copy(),
            snode=self.snode.copy(),
            stamp=self.stamp.copy(),
            peers=self.peers.copy(),
            tag_counts=tag_counts,
            settled_tag_counts=tag_counts if alike else self.settled_tag_counts.copy(),
        )

    def instance(self, index: int) -> Asked:
        """The instance of a row, as a placement sees it."""
        return self.ask(self.cluster.instances[index], index)

    def ask(self, row: Instance, index: int = NOWHERE) -> Asked:
        """An instance as a placement on this state sees it."""
        exclusion = tags.exclusion_tags(tags.exclusion_prefixes(self.cluster.tags), row.tags)
        desired = tags.desired_locations(self.cluster.tags, row.tags)
        known = [self.location_rows[tag] for tag in desired if tag in self.location_rows]
        local = row.template.local_storage
        return Asked(
            row=row,
            mem=row.mem,
            record_mem=row.mem if row.uses_memory else 0,
            secondary_mem=row.mem if row.uses_secondary_memory else 0,
            dsk=row.dsk,
            local=local,
            mirrored=row.template is DiskTemplate.DRBD,
            vcpus=0 if row.status is Status.OFFLINE else row.vcpus,
            spindles=row.spindles,
            spindle_use=row.spindle_use if local else 0,
            tags=np.array([self.tag_rows[tag] for tag in exclusion], np.int64),
            desired=np.array(known, np.int64),
            unknown_desires=len(desired) - len(known),
            forthcoming=row.forthcoming,
            index=index,
        )

    def primaries_of(self, node: int) -> Ints:
        """Settled instances with that primary, latest come first."""
        here = np.flatnonzero((self.pnode == node) & ~self.forthcoming)
        return here[np.argsort(-self.stamp[here], kind="stable")]

    def names(self, rows: Iterable[int]) -> list[str]:
        """Names of node rows."""
        return [self.cluster.nodes[row].name for row in rows]

    def settled(self) -> Cluster:
        """The cluster as it would be described after the placements made on this state."""
        columns = self.columns
        figures = (column.tolist() for column in (columns.n_mem, columns.f_dsk, columns.f_spindles))
        nodes = tuple(
            node
            if (node.n_mem, node.f_dsk, node.f_spindles) == (own, dsk, spindles)
            else replace(node, n_mem=own, f_dsk=dsk, f_spindles=spindles)
            for node, own, dsk, spindles in zip(self.cluster.nodes, *figures, strict=True)
        )
        instances = tuple(
            replace(
                row,
                pnode=nodes[pnode].name,
                snode=None if snode == NOWHERE else nodes[snode].name,
            )
            for row, pnode, snode in zip(
                self.cluster.instances, self.pnode.tolist(), self.snode.tolist(), strict=True
            )
        )
        return replace(self.cluster, nodes=nodes, instances=instances)


def distinct(values: Any) -> Any:
    """The different values of an array, in order. (``np.unique`` does more, and loads much at first use.)"""
    ordered = np.sort(values)
    keep = np.ones(len(ordered), np.bool_)
    keep[1:] = ordered[1:] != ordered[:-1]
    return ordered[keep]


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), np.float64)


def _bools(values: Iterable[bool]) -> Bools:
    return np.array(list(values), np.bool_)


def _sum_by(rows: Ints, values: Any, size: int) -> Any:
    """``values`` summed by row, in order, in their own type."""
    total = np.zeros(size, np.asarray(values).dtype)
    np.add.at(total, rows, values)
    return total


def _tag_columns(tag_sets: Sequence[frozenset[str]]) -> tuple[dict[str, int], Bools]:
    """Rows for all tags met, and a matrix of who has which."""
    rows = {tag: row for row, tag in enumerate(sorted(frozenset().union(*tag_sets)))}
    has = np.zeros((len(tag_sets), len(rows)), np.bool_)
    for holder, held in enumerate(tag_sets):
        for tag in held:
            has[holder, rows[tag]] = True
    return rows, has


def _migrates(cluster_tags: Sequence[str], nodes: Sequence[Node]) -> Bools | None:
    sent = [tags.migration_tags(cluster_tags, node.tags) for node in nodes]
    received = [tags.receivable_migration_tags(cluster_tags, node.tags) for node in nodes]
    if not any(sent):
        return None
    return np.array([[source <= target for target in received] for source in sent], np.bool_)


def derive(
    cluster: Cluster,
    requested: Sequence[Instance] = (),
    static_kvm_node_memory: int = 0,
    known: Figures | None = None,
) -> State:
    """Compute every derived figure of a consistent cluster (see :func:`.cluster.check`).

    ``requested`` are instances that are going to be placed (only their tags matter here).
    ``static_kvm_node_memory`` (MiB), unless 0, replaces what nodes running KVM report as their own
    memory: KVM counts its instances' there (``hail(1)``, Ganeti 3.0). ``known`` are figures of a
    cluster that shares rows with this one.
    """
    rows, size = cluster.nodes, len(cluster.nodes)
    node_row = {node.name: row for row, node in enumerate(rows)}
    group_row = {group.uuid: row for row, group in enumerate(cluster.groups)}
    group = _ints(group_row[node.group] for node in rows)
    policies = tuple(group.ipolicy for group in cluster.groups)
    static = static_kvm_node_memory
    n_mem = _ints(static if static and node.hypervisor == "kvm" else node.n_mem for node in rows)
    t_mem, f_mem = _floats(node.t_mem for node in rows), _ints(node.f_mem for node in rows)
    t_spindles = _ints(node.t_spindles for node in rows)
    excl_stor = _bools(node.excl_stor for node in rows)
    spindle_ratio = _floats(policies[row].spindle_ratio for row in group.tolist())

    instances = cluster.instances
    figures = tabulate(instances, known)
    values = figures.values
    pnode = _ints(node_row[instance.pnode] for instance in instances)
    secondary_row: dict[str | None, int] = {None: NOWHERE}
    secondary_row.update(node_row)
    snode = _ints(secondary_row[instance.snode] for instance in instances)
    mem, record_mem, dsk = (np.ascontiguousarray(values[name]) for name in ("mem", "record_mem", "dsk"))
    forthcoming, local = np.ascontiguousarray(values["forthcoming"]), values["local"]
    vcpus, loads = values["vcpus"], values["load"]
    settled, doubled = ~forthcoming, snode != NOWHERE
    any_forthcoming = bool(forthcoming.any())

    def on_nodes(amounts: Any, primary: Bools, secondary: Bools | None = None) -> Any:
        """Sums per node, instances in order, a primary before a secondary of the same instance."""
        if secondary is None:
            return _sum_by(pnode[primary], amounts[primary], size)
        keep = np.stack([primary, secondary], axis=1)
        both = np.stack([pnode, snode], axis=1)
        return _sum_by(both[keep], np.stack([amounts, amounts], axis=1)[keep], size)

    everyone = np.ones_like(forthcoming)
    n_cpu = _ints(node.n_cpu for node in rows)
    u_cpu = n_cpu + on_nodes(vcpus, settled)
    use = values["spindle_use"].astype(np.float64)
    inst_spindles = np.where(excl_stor, 0.0, on_nodes(use, settled, settled & doubled))
    f_dsk, f_spindles = _ints(node.f_dsk for node in rows), _ints(node.f_spindles for node in rows)
    f_dsk_forth, f_spindles_forth = f_dsk, f_spindles
    u_cpu_forth, inst_spindles_forth = u_cpu, inst_spindles
    if any_forthcoming:
        reserved = forthcoming, forthcoming & doubled
        f_dsk_forth = f_dsk - on_nodes(np.where(local, dsk, 0), *reserved)
        touched = on_nodes(np.ones_like(dsk), *reserved) > 0
        left = f_spindles - on_nodes(values["spindles"], *reserved)
        f_spindles_forth = np.where(excl_stor, left, np.where(touched, 0, f_spindles))
        u_cpu_forth = n_cpu + on_nodes(vcpus, everyone)
        inst_spindles_forth = np.where(excl_stor, 0.0, on_nodes(use, everyone, doubled))

    load_cpu = on_nodes(loads[:, 0], settled)
    load_mem, load_net = (
        load_cpu if np.array_equal(loads[:, 0], loads[:, kind]) else on_nodes(loads[:, kind], settled)
        for kind in (1, 3)
    )
    measured = [node.cpu_load for node in rows]
    if any(load is not None for load in measured):
        pairs = zip(measured, load_cpu.tolist(), strict=True)
        load_cpu = _floats(summed if load is None else load for load, summed in pairs)

    peers = np.zeros((size, size), np.int64)
    keeps = settled & doubled
    np.add.at(peers, (pnode[keeps], snode[keeps]), values["secondary_mem"][keeps])
    r_mem = peers.max(axis=0, initial=0)
    i_mem = on_nodes(record_mem, settled)

    tag_rows, tag_counts, settled_tag_counts = _exclusion(
        cluster, requested, values["tagged"], pnode, forthcoming
    )
    location_rows, located = _tag_columns([tags.location_tags(cluster.tags, node.tags) for node in rows])
    location = np.zeros(size, np.int64)
    if location_rows or any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags):
        shared = np.where(doubled, (located[pnode] & located[snode]).sum(axis=1), 0)
        unmet = _ints(
            len(
                tags.desired_locations(cluster.tags, instance.tags)
                - tags.location_tags(cluster.tags, rows[node].tags)
            )
            for instance, node in zip(instances, pnode.tolist(), strict=True)
        )
        location = on_nodes(shared + unmet, settled)

    columns = Columns(
        t_mem=t_mem,
        n_mem=n_mem,
        x_mem=t_mem.astype(np.int64) - n_mem - i_mem - f_mem,
        t_dsk=_floats(node.t_dsk for node in rows),
        t_cpu=_floats(node.t_cpu for node in rows),
        cpu_speed=_floats(node.cpu_speed for node in rows),
        t_spindles=t_spindles,
        lo_dsk=np.zeros(size, np.int64),
        hi_spindles=spindle_ratio * t_spindles,
        vcpu_ratio=_floats(policies[row].vcpu_ratio for row in group.tolist()),
        offline=_bools(node.offline for node in rows),
        excl_stor=excl_stor,
        i_mem=i_mem,
        f_mem_forth=f_mem - on_nodes(np.where(record_mem > 0, 0, mem), everyone),
        f_dsk=f_dsk,
        f_dsk_forth=f_dsk_forth,
        f_spindles=f_spindles,
        f_spindles_forth=f_spindles_forth,
        u_cpu=u_cpu,
        u_cpu_forth=u_cpu_forth,
        inst_spindles=inst_spindles,
        inst_spindles_forth=inst_spindles_forth,
        r_mem=r_mem,
        fail_n1=f_mem < r_mem,
        load_cpu=load_cpu,
        load_mem=load_mem,
        load_dsk=on_nodes(loads[:, 2], settled, settled & doubled),
        load_net=load_net,
        primaries=on_nodes(np.ones_like(dsk), settled),
        secondaries=_sum_by(snode[keeps], np.ones_like(dsk)[keeps], size),
        conflicts=np.maximum(tag_counts - 1, 0).sum(axis=0),
        location=location,
    )
    return State(
        cluster=cluster,
        figures=figures,
        nodes=node_row,
        group=group,
        policies=policies,
        columns=columns,
        pnode=pnode,
        snode=snode,
        stamp=np.arange(len(instances)),
        record_mem=record_mem,
        dsk=dsk,
        template=np.ascontiguousarray(values["template"]),
        forthcoming=forthcoming,
        peers=peers,
        tag_rows=tag_rows,
        tag_counts=tag_counts,
        settled_tag_counts=settled_tag_counts,
        migrates=_migrates(cluster.tags, rows),
        located=located,
        location_rows=location_rows,
    )


def _exclusion(
    cluster: Cluster, requested: Sequence[Instance], tagged: Bools, pnode: Ints, forthcoming: Bools
) -> tuple[dict[str, int], Ints, Ints]:
    """Rows of all exclusion tags, and their counts on nodes, with and without forthcoming instances."""
    prefixes, instances = tags.exclusion_prefixes(cluster.tags), cluster.instances
    candidates = np.flatnonzero(tagged).tolist() if prefixes else []
    held = [(row, tags.exclusion_tags(prefixes, instances[row].tags)) for row in candidates]
    wanted = [tags.exclusion_tags(prefixes, instance.tags) for instance in requested]
    met = {tag for each in (*(found for _, found in held), *wanted) for tag in each}
    tag_rows = {tag: row for row, tag in enumerate(sorted(met))}
    counts = np.zeros((len(tag_rows), len(cluster.nodes)), np.int64)
    waiting = np.zeros_like(counts)
    for row, found in held:
        for tag in found:
            counts[tag_rows[tag], pnode[row]] += 1
            if forthcoming[row]:
                waiting[tag_rows[tag], pnode[row]] += 1
    return tag_rows, counts, counts - waiting if waiting.any() else counts


def missing_resources(state: State) -> list[str]:
    """A line for each node that lacks more than 512 MiB of memory or 1 GiB of disk, last node first."""
    size = len(state.cluster.nodes)
    placed = [(state.pnode, ~state.forthcoming), (state.snode, ~state.forthcoming & (state.snode != NOWHERE))]
    used = sum(_sum_by(node[keep], state.dsk[keep], size) for node, keep in placed)
    columns = state.columns
    lost_mem = columns.x_mem.tolist()
    lost_dsk = (columns.t_dsk.astype(np.int64) - columns.f_dsk - used).tolist()
    return [
        f"node {on_one_line(node.name)} is missing {mem} MB ram and {dsk // 1024} GB disk"
        for node, mem, dsk in zip(state.cluster.nodes, lost_mem, lost_dsk, strict=True)
        if mem > 512 or dsk > 1024
    ][::-1]
