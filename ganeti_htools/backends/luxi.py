"""A cluster from luxid's answers to the queries of Ganeti's tools, and to a query for networks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ganeti_htools.backends import query_rows
from ganeti_htools.backends.fields import Fields
from ganeti_htools.luxi.queries import ClusterAnswers, MissingReason, QueryRow
from ganeti_htools.model.cluster import Cluster, Instance, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.types import DiskTemplate, Status

# Defaults for fields that older versions of Ganeti do not have.
_UNKNOWN: Mapping[str, Any] = {
    "be/spindle_use": 1,
    "cnos": 1,
    "diskparams": {},
    "forthcoming": False,
    "nic.networks": [],
    "ndp/cpu_speed": 1.0,
    "ndp/exclusive_storage": False,
    "ndp/spindle_count": 1,
    "tags": [],
}

_REASONS = {
    MissingReason.UNKNOWN: "this version of Ganeti does not know it",
    MissingReason.NO_DATA: "Ganeti has no data",
    MissingReason.UNAVAILABLE: "Ganeti says that there is none",
    MissingReason.OFFLINE: "Ganeti says that the node is offline",
}


_NEEDED = ("mtotal", "mnode", "mfree", "ctotal", "cnos")  # without these a node cannot be used


def in_use(node: QueryRow) -> bool:
    """Whether a node should report figures, according to the configuration."""
    return not node.values.get("offline") and node.values.get("vm_capable") is not False


def with_silence(node: QueryRow) -> QueryRow:
    """Return a node as offline and silent if it should report and lacks needed figures."""
    needed = (*_NEEDED, "sptotal") if node.values.get("ndp/exclusive_storage") else _NEEDED
    # Figures that this version of Ganeti does not know are not needed.
    known = (node.missing.get(name, MissingReason.UNKNOWN) is MissingReason.UNKNOWN for name in needed)
    silent = in_use(node) and not all(known)
    return node._replace(values={**node.values, "offline": True, "silent": True}) if silent else node


def parse_with_silent_nodes(answers: ClusterAnswers) -> Cluster:
    """Return the cluster in the answers, with nodes that do not report as offline. Raises DataError."""
    return parse(answers._replace(nodes=list(map(with_silence, answers.nodes))))


def parse(answers: ClusterAnswers, before: tuple[ClusterAnswers, Cluster] | None = None) -> Cluster:
    """Return the cluster in the answers. Raises DataError, also for a node in use that does not report.

    Rows that stayed as they are in the answers ``before`` are not read again.
    """
    known = _known_rows(*before) if before else {}

    def read(kind: str, rows: Iterable[QueryRow], parse_row: Callable[[QueryRow], Any]) -> list[Any]:
        found = []
        for row in rows:
            old, made = known.get((kind, str(row.values.get("name"))), (None, None))
            found.append(made if row == old else parse_row(row))
        return found

    networks = query_rows.networks([_Fields("Network", row) for row in answers.networks])
    groups = read("groups", answers.groups, lambda row: query_rows.group(_Fields("Group", row)))
    return query_rows.cluster(
        Fields("Parsing cluster info", answers.info),
        [query_rows.with_networks(group, networks) for group in groups],
        read("nodes", answers.nodes, _node),
        read("instances", answers.instances, instance),
    )


def _known_rows(answers: ClusterAnswers, cluster: Cluster) -> dict[tuple[str, str], tuple[QueryRow, Any]]:
    """Return each answer row with the row parsed from it, by kind and name."""
    return {
        (kind, str(row.values["name"])): (row, made)
        for kind in ("groups", "nodes", "instances")
        for row, made in zip(getattr(answers, kind), getattr(cluster, kind), strict=True)
    }


class _Fields(Fields):
    """One object of an answer, with errors that name it."""

    __slots__ = ("missing",)

    def __init__(self, kind: str, row: QueryRow) -> None:
        unknown = [
            key for key, why in row.missing.items() if why is MissingReason.UNKNOWN and key in _UNKNOWN
        ]
        values = {**row.values, **{key: _UNKNOWN[key] for key in unknown}} if unknown else row.values
        super().__init__(f"{kind} data", values)
        self.missing = row.missing
        self.owner = f"{kind} '{self.text('name')}', error while reading data"

    def value(self, key: str) -> Any:
        try:
            return self.values[key]
        except KeyError:
            if key not in self.missing:
                return super().value(key)
            raise DataError(f"{self.owner}: key '{key}': {_REASONS[self.missing[key]]}") from None


def _node(row: QueryRow) -> Node:
    fields = _Fields("Node", row)
    exclusive = fields.boolean("ndp/exclusive_storage")
    return query_rows.node(
        fields,
        fields.text("group.uuid"),
        exclusive,
        0 if exclusive else fields.count("ndp/spindle_count"),
        fields.number("ndp/cpu_speed"),
    )


def instance(row: QueryRow) -> Instance:
    """Return the instance in a row. Raises DataError."""
    fields = _Fields("Instance", row)
    secondaries = fields.texts("snodes")
    return Instance(
        fields.text("name"),
        fields.integer("be/memory"),
        fields.integer("disk_usage"),
        query_rows.disks(fields),
        fields.count("be/vcpus"),
        fields.choice("status", Status),
        fields.texts("tags"),
        fields.boolean("be/auto_balance"),
        fields.text("pnode"),
        secondaries[0] if secondaries else None,
        fields.choice("disk_template", DiskTemplate),
        fields.count("be/spindle_use"),
        query_rows.nics(fields),
        forthcoming=fields.boolean("forthcoming"),
        uuid=fields.text("uuid") if fields.has("uuid") else "",
    )
