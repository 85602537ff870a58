"""The daemon's model of the cluster: Ganeti's configuration, merged with the figures that nodes report.

Both are polled at different rates, so each has tables of its own. Between two polls of live data, free
amounts of nodes follow the instances. A table's generation rises when, and only
when, something in it changes. Rows that are equal to known ones are the same objects, so only changed rows
have to be processed again. All data is immutable: new data makes a new model, and the readers of an old one
are not disturbed.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter, is_
from typing import TypeVar

from ganeti_htools.backends import luxi
from ganeti_htools.backends.inventory_tags import with_tagged_inventories
from ganeti_htools.luxi.client import AnswerError
from ganeti_htools.luxi.queries import NODE_LIVE_FIELDS, ClusterAnswers, MissingReason, QueryRow
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.ignored_tags import without_ignored
from ganeti_htools.model.load import LoadProfile
from ganeti_htools.model.types import Status
from htoolsd.sync.node_figures import FreeChange, free_changes, same_placement, with_free_change
from htoolsd.sync.node_storage import KnownStorage, with_current_storage
from htoolsd.sync.reserved_room import Reservations, with_promises_reserved, with_reservations
from htoolsd.sync.standby import StandbyNodes, revise_standby, with_standby

# The kinds of data, each with an age of its own, and the tables of those that are polled.
CONFIGURATION, LIVE, STORAGE = "configuration", "live", "storage"
UPDATES = "updates"  # live data of some nodes
LEDGER = "ledger"
LOAD = "load"
TABLES = {
    CONFIGURATION: ("cluster", "groups", "networks", "nodes", "instances"),
    LIVE: ("live_nodes", "live_instances"),
}

_FIGURES = [name for name in NODE_LIVE_FIELDS if name != "name"]
_WANTED = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}

Item = TypeVar("Item")
More = TypeVar("More", bound=Hashable)

# Whether a primary node is offline now, and was when live data was polled.
Roles = tuple[bool, bool]
# Rows of ``answers`` by the ``id`` of the two rows that were joined, and what else was joined to them.
JoinedRows = Mapping[tuple[int, int, Hashable], QueryRow]


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Rows, and the number of their changes. The same ``source`` gives the same rows."""

    rows: tuple[QueryRow, ...] = ()
    generation: int = 0
    source: object = None


@dataclass(frozen=True, slots=True)
class Model:
    """The cluster at one moment, in the stages in which it is made.

    ``tables`` are the rows as polled. The table ``cluster`` has one row, Ganeti's cluster configuration.
    ``asked`` has the times (of trio's clock) of the last poll for each kind of data. The next four stages are
    None until both kinds were polled: ``answers`` joins the tables; ``without_storage`` is the cluster in the
    answers; ``without_reservations`` adds ``storage``; ``cluster`` adds the inventories in tags,
    ``reservations`` and ``standby``. ``available`` is the cluster for plans and tools: promises to its
    instances, which decisions count themselves, are reserved in it, and it has the measured load
    (``load_profiles``, None while load is not used). ``silent`` nodes are in use but do not
    report; they count as offline. ``changed_nodes`` have other instances since the time of a poll. Nodes in
    ``polled_nodes`` were polled at this time, after the last poll of all nodes. ``former_nodes`` are those
    that an instance had before, until a job on the instance ends: its disks leave an old secondary late.
    """

    tables: Mapping[str, ModelTable] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    answers: ClusterAnswers | None = None
    joined: JoinedRows = field(default_factory=dict)
    without_storage: Cluster | None = None
    without_reservations: Cluster | None = None
    cluster: Cluster | None = None
    available: Cluster | None = None
    silent: tuple[str, ...] = ()
    changed_nodes: Mapping[str, float] = field(default_factory=dict)
    polled_nodes: Mapping[str, float] = field(default_factory=dict)
    former_nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    storage: KnownStorage = field(default_factory=KnownStorage)
    reservations: Reservations = field(default_factory=Reservations)
    standby: StandbyNodes = field(default_factory=dict)
    load_profiles: Mapping[str, LoadProfile] | None = None
    load_generation: int = 0

    @property
    def name(self) -> str | None:
        """The name of the cluster, None while it is unknown."""
        return None if self.answers is None else str(self.answers.info["name"])

    @property
    def generations(self) -> dict[str, int]:
        """The generation of each table, and of storage, reservations and load that have ever changed."""
        names = (name for tables in TABLES.values() for name in tables)
        found = {name: self.tables[name].generation for name in names if name in self.tables}
        others = (STORAGE, self.storage), (LEDGER, self.reservations)
        found |= {name: each.generation for name, each in others if each.generation}
        return found | ({LOAD: self.load_generation} if self.load_generation else {})

    @property
    def updating(self) -> list[str]:
        """The nodes whose figures may be older than their instances. Their free amounts are computed."""
        last = self.asked.get(LIVE, inf)
        return sorted(
            name for name, when in self.changed_nodes.items() if when > self.polled_nodes.get(name, last)
        )

    def ages(self, now: float) -> dict[str, float]:
        """Return the seconds since each kind of data was polled."""
        asked = {kind: self.asked[kind] for kind in TABLES if kind in self.asked}
        if self.storage.asked is not None:
            asked[STORAGE] = self.storage.asked
        return {kind: round(now - when, 3) for kind, when in asked.items()}


def set_tables(
    model: Model,
    kind: str,
    tables: Mapping[str, Sequence[QueryRow]],
    asked: float,
    nodes: Collection[str] | None = None,
) -> Model:
    """Return the model after a poll for all tables of a kind. Raises AnswerError, DataError.

    With ``nodes``, live data of these nodes only was polled, and of the instances that have them as primary.
    """
    if nodes is not None:
        if asked < model.asked[LIVE]:
            return model  # all nodes were polled meanwhile
        tables = _with_other_rows(model, tables, nodes)
    new_tables = {
        name: _revised(name, model.tables.get(name, ModelTable()), tables[name]) for name in TABLES[kind]
    }
    same = all(
        model.tables.get(name, ModelTable()).generation == table.generation
        for name, table in new_tables.items()
    )
    times = model.asked if nodes is not None else {**model.asked, kind: asked}
    polled = {} if kind == LIVE and nodes is None else model.polled_nodes
    changed = {name: when for name, when in model.changed_nodes.items() if when > times.get(LIVE, -inf)}
    former = dict(model.former_nodes)
    if kind == CONFIGURATION:
        old, rows = _changed_instances(model.tables.get("instances"), new_tables["instances"])
        changed |= dict.fromkeys((node for row in (*old, *rows) for node in _nodes(row)), asked)
        former |= {
            name: former.get(name, frozenset()).union(_nodes(row)) for name, row in _by_name(old).items()
        }
    new = replace(
        model,
        tables={**model.tables, **new_tables},
        asked=times,
        changed_nodes=changed,
        former_nodes=former,
        polled_nodes={**polled, **dict.fromkeys(nodes or (), asked)},
    )
    return new if same or len(new.asked) < len(TABLES) else _merged(new)


def _changed_instances(
    before: ModelTable | None, now: ModelTable
) -> tuple[Sequence[QueryRow], Sequence[QueryRow]]:
    """Return the old rows of instances that are changed or gone, and the rows of changed and new ones."""
    if before is None or before is now:
        return (), ()
    old, new = {id(row) for row in before.rows}, {id(row) for row in now.rows}
    gone = [row for row in before.rows if id(row) not in new]
    return gone, [row for row in now.rows if id(row) not in old]


def note_ended_jobs(model: Model, instances: Collection[str], when: float) -> Model:
    """Return the model after jobs on instances have ended; names may be cut off at a dot."""
    former = model.former_nodes
    nodes = {row.values["name"]: {*_nodes(row)} for row in model.tables["instances"].rows}
    nodes |= {name: nodes.get(name, set()) | left for name, left in former.items()}
    ended = {each for each in nodes if any(f"{each}.".startswith(f"{name}.") for name in instances)}
    return replace(
        model,
        changed_nodes={**model.changed_nodes, **{node: when for name in ended for node in nodes[name]}},
        former_nodes={name: left for name, left in former.items() if name not in ended},
    )


def _with_other_rows(
    model: Model, tables: Mapping[str, Sequence[QueryRow]], nodes: Collection[str]
) -> dict[str, Sequence[QueryRow]]:
    """Return the tables of live data after a poll of some nodes."""
    merged = dict[str, Sequence[QueryRow]]()
    for name, rows in tables.items():
        instances = name == "live_instances"
        new, kept = _by_name(rows), []
        for row in model.tables[name].rows:
            found = new.pop(row.values["name"], None)
            if found is not None:
                kept.append(row if instances and _knows_more(row, found, nodes) else found)
            elif row.values.get("pnode" if instances else "name") not in nodes:
                kept.append(row)
        merged[name] = [*kept, *new.values()]
    return merged


def _knows_more(old: QueryRow, new: QueryRow, nodes: Collection[str]) -> bool:
    """Whether an unchanged instance keeps its status after a poll of some nodes.

    Ganeti says that an instance runs on another node, not that it is down, only if it asks that node.
    """
    same = same_placement(old, new) and old.values.get("admin_state") == new.values.get("admin_state")
    down = new.values.get("status") == Status.ERROR_DOWN.value and not {*_nodes(new)} <= {*nodes}
    return same and (down or old.values.get("status") == Status.WRONG_NODE.value)


def _nodes(instance: QueryRow) -> list[str]:
    nodes = [instance.values.get("pnode"), *(instance.values.get("snodes") or ())]
    return [node for node in nodes if isinstance(node, str)]


def nodes_without_live_data(model: Model) -> frozenset[str]:
    """Return the nodes in use that the last live data lacks: they were missing or not in use at that time."""
    live = _by_name(model.tables["live_nodes"].rows)
    used = (row.values["name"] for row in model.tables["nodes"].rows if luxi.in_use(row))
    return frozenset(name for name in used if name not in live or _was_offline(live[name]))


def _revised(name: str, before: ModelTable, rows: Sequence[QueryRow]) -> ModelTable:
    """Return the table with these rows; the same object if they are the same."""
    if rows is before.source:
        return before
    if not all(isinstance(row.values.get("name"), str) for row in rows):
        raise AnswerError(f"{name}: expected each row to have a name")
    reused = _reuse(rows, before.rows, lambda row: row.values["name"])
    if before.generation and len(reused) == len(before.rows) and all(map(is_, reused, before.rows)):
        return replace(before, source=rows)
    return ModelTable(reused, before.generation + 1, rows)


def _by_name(rows: Iterable[QueryRow]) -> dict[str, QueryRow]:
    return {row.values["name"]: row for row in rows}


def _reuse(items: Sequence[Item], before: Iterable[Item], name: Callable[[Item], object]) -> tuple[Item, ...]:
    """Return the items, each replaced by the earlier object of its name if both are equal."""
    known = {name(item): item for item in before}
    return tuple(old if (old := known.get(name(item), item)) == item else item for item in items)


def _merged(model: Model) -> Model:
    """Return the model with everything that follows from its tables."""
    tables, before = model.tables, model.answers
    offline = frozenset(row.values["name"] for row in tables["nodes"].rows if row.values.get("offline"))
    then = frozenset(row.values["name"] for row in tables["live_nodes"].rows if _was_offline(row))

    def primary(instance: QueryRow) -> Roles:
        name = instance.values.get("pnode")
        return name in offline, name in then

    instances, joined = _join(model, "instances", before.instances if before else (), _with_status, primary)
    exclusive = (
        row.values["name"] for row in tables["nodes"].rows if row.values.get("ndp/exclusive_storage")
    )
    changes = free_changes(_by_name(tables["live_instances"].rows), _by_name(instances), exclusive)

    def change(node: QueryRow) -> FreeChange:
        return changes.get(node.values["name"], (0, 0, 0))

    nodes, joined_nodes = _join(model, "nodes", before.nodes if before else (), _with_figures, change)
    answers = ClusterAnswers(
        nodes,
        instances,
        dict(tables["cluster"].rows[0].values),
        list(tables["groups"].rows),
        list(tables["networks"].rows),
    )
    known = (before, model.without_storage) if before and model.without_storage else None
    cluster = _reuse_rows(luxi.parse(answers, known), model.without_storage)
    merged = replace(
        model,
        answers=answers,
        without_storage=cluster,
        silent=tuple(node.name for node in cluster.nodes if node.silent),
        joined={**joined_nodes, **joined},
    )
    return set_storage(merged, model.storage)


def set_storage(model: Model, storage: KnownStorage) -> Model:
    """Return the model with other storage."""
    if model.without_storage is None:
        return replace(model, storage=storage)
    before = model.without_reservations
    cluster = _reuse_rows(with_current_storage(model.without_storage, storage), before)
    standby = revise_standby(model.standby, before, cluster)
    new = replace(model, storage=storage, without_reservations=cluster, standby=standby)
    return set_reservations(new, model.reservations)


def set_reservations(model: Model, reserved: Reservations) -> Model:
    """Return the model with other reservations."""
    if model.without_reservations is None:
        return replace(model, reservations=reserved)
    tagged = with_tagged_inventories(without_ignored(model.without_reservations))
    new = with_standby(with_reservations(tagged, reserved), model.standby)
    cluster = _reuse_rows(new, model.cluster)
    available = with_promises_reserved(cluster, reserved)
    if model.load_profiles is not None:
        available = replace(available, load_profiles=model.load_profiles)
    return replace(
        model,
        reservations=reserved,
        cluster=cluster,
        available=cluster if available is cluster else _reuse_rows(available, model.available),
    )


def set_load(model: Model, profiles: Mapping[str, LoadProfile] | None) -> Model:
    """Return the model with other measured load."""
    new = replace(model, load_profiles=profiles, load_generation=model.load_generation + 1)
    return set_reservations(new, new.reservations)


def _reuse_rows(cluster: Cluster, before: Cluster | None) -> Cluster:
    """Return the cluster with the earlier objects where they are equal. (Different answers may give such.)"""
    if before is None or cluster is before:
        return cluster
    return replace(
        cluster,
        groups=_reuse(cluster.groups, before.groups, attrgetter("name")),
        nodes=_reuse(cluster.nodes, before.nodes, attrgetter("name")),
        instances=_reuse(cluster.instances, before.instances, attrgetter("name")),
    )


def _was_offline(live: QueryRow) -> bool:
    return live.missing.get("mtotal") is MissingReason.OFFLINE


def _join(
    model: Model,
    table: str,
    before: Iterable[QueryRow],
    join: Callable[[QueryRow, QueryRow | None, More], QueryRow],
    more: Callable[[QueryRow], More],
) -> tuple[list[QueryRow], JoinedRows]:
    """Return the rows of a table with their live data and more, in order and as joined."""
    live_rows, known = _by_name(model.tables[f"live_{table}"].rows), _by_name(before)
    rows, joined = [], dict[tuple[int, int, Hashable], QueryRow]()
    for row in model.tables[table].rows:
        name = row.values["name"]
        live, extra = live_rows.get(name), more(row)
        key = (id(row), id(live), extra)
        new = model.joined.get(key)
        if new is None:
            new = join(row, live, extra)
            new = old if (old := known.get(name, new)) == new else new
        rows.append(new)
        joined[key] = new
    return rows, joined


def _with_figures(node: QueryRow, live: QueryRow | None, change: FreeChange) -> QueryRow:
    """Return a node with the figures that it reported, and the change of its free amounts since."""
    if node.values.get("offline"):
        return QueryRow(node.values, {**node.missing, **dict.fromkeys(_FIGURES, MissingReason.OFFLINE)})
    if live is None:
        live = QueryRow({}, dict.fromkeys(_FIGURES, MissingReason.NO_DATA))
    values = {**with_free_change(live.values, change), **node.values}
    return luxi.with_silence(QueryRow(values, {**live.missing, **node.missing}))


def _with_status(instance: QueryRow, live: QueryRow | None, roles: Roles) -> QueryRow:
    """Return an instance with the reported status, or else the status that its configuration demands.

    A reported status holds while the instance's demanded status, its primary node and that node's role are
    the same as at the report.
    """
    values, missing = dict(instance.values), dict(instance.missing)
    wanted = values.pop("admin_state", None)
    missing.pop("admin_state", None)
    offline, then = roles
    values["status"] = "ERROR_nodeoffline" if offline else _WANTED.get(wanted, "ADMIN_down")
    if live is not None and offline is then and _reported_for(live) == (wanted, values.get("pnode")):
        values["status"] = live.values.get("status", values["status"])
    return QueryRow(values, missing)


def _reported_for(live: QueryRow) -> tuple[object, object]:
    return live.values.get("admin_state"), live.values.get("pnode")
