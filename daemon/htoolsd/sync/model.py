"""The cluster as the daemon knows it: what Ganeti's configuration says and what nodes report, merged.

The two are asked at different rates, so each is kept in tables of its own. A table's generation goes up
when, and only when, something in it changed; rows that are equal to what was there are the same objects,
so whatever is made of rows need be made of the changed ones only. Everything here is immutable: what is
newly learnt makes a new model, and readers of an old one can go on with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter, is_
from typing import TypeVar

from ganeti_htools.backends import luxi
from ganeti_htools.luxi.client import AnswerError
from ganeti_htools.luxi.queries import NODE_LIVE_FIELDS, ClusterAnswers, Missing, Row
from ganeti_htools.model.cluster import Cluster
from htoolsd.sync.kept import Kept, with_kept
from htoolsd.sync.last_seen import LastSeen, revised, with_last_seen
from htoolsd.sync.storage import Storage, furnished

# The kinds of data, each with an age of its own, and the tables of each.
CONFIGURATION, LIVE, STORAGE = "configuration", "live", "storage"
LEDGER = "ledger"
TABLES = {
    CONFIGURATION: ("cluster", "groups", "networks", "nodes", "instances"),
    LIVE: ("live_nodes", "live_instances"),
}

_FIGURES = [name for name in NODE_LIVE_FIELDS if name != "name"]
_NEEDED = ("mtotal", "mnode", "mfree", "ctotal", "cnos")  # without these a node cannot be used
_WANTED = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}

Item = TypeVar("Item")

# Whether a primary node is offline now, and was when live data was asked for.
Roles = tuple[bool, bool]
# Rows of ``answers`` by the identities of the two that were joined, and the primary node's roles.
Joints = Mapping[tuple[int, int, Roles], Row]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and how often they have changed; from the same ``source`` come the same rows."""

    rows: tuple[Row, ...] = ()
    generation: int = 0
    source: object = None


@dataclass(frozen=True, slots=True)
class Model:
    """Everything known. ``asked`` has the times (of trio's clock) when each kind of data was asked for last.

    ``answers`` and ``cluster`` are None until both kinds have been learnt. ``silent`` are nodes that are in
    use but do not report; they count as offline. The table ``cluster`` has one row, its configuration.
    ``changed`` are nodes with other instances than before, and when that was asked for. ``plain`` is the
    cluster without what is known of ``storage``, ``told`` with that, but without what is to be ``kept``.
    ``last_seen`` is what nodes had when they last reported.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    answers: ClusterAnswers | None = None
    cluster: Cluster | None = None
    silent: tuple[str, ...] = ()
    changed: Mapping[str, float] = field(default_factory=dict)
    joints: Joints = field(default_factory=dict)
    plain: Cluster | None = None
    told: Cluster | None = None
    storage: Storage = field(default_factory=Storage)
    kept: Kept = field(default_factory=Kept)
    last_seen: LastSeen = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The name of the cluster, None while it is not known."""
        return None if self.answers is None else str(self.answers.info["name"])

    @property
    def generations(self) -> dict[str, int]:
        """How often each table has changed, and what is known of storage and from the ledger, if anything."""
        names = (name for tables in TABLES.values() for name in tables)
        found = {name: self.tables[name].generation for name in names if name in self.tables}
        apart = {STORAGE: self.storage.generation, LEDGER: self.kept.generation}
        return found | {name: generation for name, generation in apart.items() if generation}

    @property
    def updating(self) -> list[str]:
        """Nodes whose figures are of a time when they may have had other instances."""
        return sorted(name for name, when in self.changed.items() if when > self.asked.get(LIVE, -inf))

    def ages(self, now: float) -> dict[str, float]:
        """Seconds since each kind of data was asked for."""
        asked = {kind: self.asked[kind] for kind in TABLES if kind in self.asked}
        if self.storage.asked is not None:
            asked[STORAGE] = self.storage.asked
        return {kind: round(now - when, 3) for kind, when in asked.items()}


def learnt(model: Model, kind: str, tables: Mapping[str, Sequence[Row]], asked: float) -> Model:
    """The model after data of a kind was read: all tables of that kind. Raises AnswerError, DataError."""
    revised = {name: _revised(name, model.tables.get(name, Table()), tables[name]) for name in TABLES[kind]}
    same = all(model.tables.get(name, Table()).generation == revised[name].generation for name in revised)
    times = {**model.asked, kind: asked}
    changed = {name: when for name, when in model.changed.items() if when > times.get(LIVE, -inf)}
    if kind == CONFIGURATION:
        changed |= dict.fromkeys(_touched(model.tables.get("instances"), revised["instances"]), asked)
    new = replace(model, tables={**model.tables, **revised}, asked=times, changed=changed)
    return new if same or len(new.asked) < len(TABLES) else _merged(new)


def _touched(before: Table | None, now: Table) -> set[str]:
    """The nodes of instances that are not what they were."""
    if before is None or before is now:
        return set()
    known, left = {id(row) for row in before.rows}, {id(row) for row in now.rows}
    rows = [row for row in now.rows if id(row) not in known]
    rows += [row for row in before.rows if id(row) not in left]
    return {node for row in rows for node in _nodes(row)}


def _nodes(instance: Row) -> list[str]:
    nodes = [instance.values.get("pnode"), *(instance.values.get("snodes") or ())]
    return [node for node in nodes if isinstance(node, str)]


def unheard(model: Model) -> frozenset[str]:
    """Nodes in use that are missing in the last live data: they were not there or not in use then."""
    heard = _named(model.tables["live_nodes"].rows)
    used = (row.values["name"] for row in model.tables["nodes"].rows if _in_use(row))
    return frozenset(name for name in used if name not in heard or _was_offline(heard[name]))


def _revised(name: str, before: Table, rows: Sequence[Row]) -> Table:
    """The table with these rows; the same object if they are the same."""
    if rows is before.source:
        return before
    if not all(isinstance(row.values.get("name"), str) for row in rows):
        raise AnswerError(f"{name}: expected each to have a name")
    kept = _kept(rows, before.rows, _name)
    if before.generation and len(kept) == len(before.rows) and all(map(is_, kept, before.rows)):
        return replace(before, source=rows)
    return Table(kept, before.generation + 1, rows)


def _named(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.values["name"]: row for row in rows}


def _kept(items: Sequence[Item], before: Iterable[Item], name: Callable[[Item], object]) -> tuple[Item, ...]:
    """The items; each that equals the earlier one of its name is replaced by that earlier object."""
    known = {name(item): item for item in before}
    return tuple(old if (old := known.get(name(item), item)) == item else item for item in items)


def _name(row: Row) -> object:
    return row.values["name"]


def _merged(model: Model) -> Model:
    """The model with everything that follows from its tables."""
    tables, before = model.tables, model.answers
    offline = frozenset(row.values["name"] for row in tables["nodes"].rows if row.values.get("offline"))
    then = frozenset(row.values["name"] for row in tables["live_nodes"].rows if _was_offline(row))

    def primary(instance: Row) -> Roles:
        name = instance.values.get("pnode")
        return name in offline, name in then

    nodes, node_joints = _joined(model, "nodes", before.nodes if before else (), _reporting, _no_roles)
    instances, joints = _joined(model, "instances", before.instances if before else (), _with_status, primary)
    answers = ClusterAnswers(
        nodes,
        instances,
        dict(tables["cluster"].rows[0].values),
        list(tables["groups"].rows),
        list(tables["networks"].rows),
    )
    plain = luxi.parse(answers, (before, model.plain) if before and model.plain else None)
    plain = _renewed(plain, model.plain)
    silent = (row.values["name"] for row in nodes if row.values.get("offline"))
    merged = replace(
        model,
        answers=answers,
        plain=plain,
        silent=tuple(name for name in silent if name not in offline),
        joints={**node_joints, **joints},
    )
    return with_storage(merged, model.storage)


def with_storage(model: Model, storage: Storage) -> Model:
    """The model with what is known of storage."""
    if model.plain is None:
        return replace(model, storage=storage)
    told = _renewed(furnished(model.plain, storage), model.told)
    last_seen = revised(model.last_seen, model.told, told)
    return keeping(replace(model, storage=storage, told=told, last_seen=last_seen), model.kept)


def keeping(model: Model, kept: Kept) -> Model:
    """The model with what decisions have to leave."""
    if model.told is None:
        return replace(model, kept=kept)
    cluster = with_last_seen(with_kept(model.told, kept), model.last_seen)
    return replace(model, kept=kept, cluster=_renewed(cluster, model.cluster))


def _renewed(cluster: Cluster, before: Cluster | None) -> Cluster:
    """The cluster with the same objects as before where they are equal: different rows may give such."""
    if before is None or cluster is before:
        return cluster
    return replace(
        cluster,
        groups=_kept(cluster.groups, before.groups, attrgetter("name")),
        nodes=_kept(cluster.nodes, before.nodes, attrgetter("name")),
        instances=_kept(cluster.instances, before.instances, attrgetter("name")),
    )


def _was_offline(live: Row) -> bool:
    return live.missing.get("mtotal") is Missing.OFFLINE


def _no_roles(_node: Row) -> Roles:
    return False, False


def _joined(
    model: Model,
    table: str,
    before: Iterable[Row],
    join: Callable[[Row, Row | None, Roles], Row],
    roles: Callable[[Row], Roles],
) -> tuple[list[Row], Joints]:
    """The rows of a table with their live data, and what was joined."""
    found, known = _named(model.tables[f"live_{table}"].rows), _named(before)
    rows, joints = [], {}
    for row in model.tables[table].rows:
        name = row.values["name"]
        live, role = found.get(name), roles(row)
        key = (id(row), id(live), role)
        new = model.joints.get(key)
        if new is None:
            new = join(row, live, role)
            new = old if (old := known.get(name, new)) == new else new
        rows.append(new)
        joints[key] = new
    return rows, joints


def _in_use(node: Row) -> bool:
    """Whether a node should report figures, by the configuration."""
    return not node.values.get("offline") and node.values.get("vm_capable") is not False


def _reporting(node: Row, live: Row | None, _roles: Roles) -> Row:
    """A node with what it reports, if it is asked at all; offline if that does not make it usable."""
    if node.values.get("offline"):
        return Row(node.values, {**node.missing, **dict.fromkeys(_FIGURES, Missing.OFFLINE)})
    if live is None:
        live = Row({}, dict.fromkeys(_FIGURES, Missing.NO_DATA))
    values, missing = {**live.values, **node.values}, {**live.missing, **node.missing}
    needed = (*_NEEDED, "sptotal") if node.values.get("ndp/exclusive_storage") else _NEEDED
    # What this version of Ganeti does not know is not missed.
    lacks = any(missing.get(name, Missing.UNKNOWN) is not Missing.UNKNOWN for name in needed)
    if lacks and _in_use(node):
        values["offline"] = True
    return Row(values, missing)


def _with_status(instance: Row, live: Row | None, roles: Roles) -> Row:
    """An instance with the status that was found, or else the one that its configuration asks for.

    What was found holds as long as the instance's wish, its primary node and that node's role are what they
    were then.
    """
    values, missing = dict(instance.values), dict(instance.missing)
    wanted = values.pop("admin_state", None)
    missing.pop("admin_state", None)
    offline, then = roles
    values["status"] = "ERROR_nodeoffline" if offline else _WANTED.get(wanted, "ADMIN_down")
    if live is not None and offline is then and _found_for(live) == (wanted, values.get("pnode")):
        values["status"] = live.values.get("status", values["status"])
    return Row(values, missing)


def _found_for(live: Row) -> tuple[object, object]:
    return live.values.get("admin_state"), live.values.get("pnode")
