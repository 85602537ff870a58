"""Nodes and instances as tables, in the layout of Ganeti's tools (``htools(1)``, ``--print-nodes``)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from ganeti_htools.backends.haskell import fixed, show
from ganeti_htools.backends.units import decode_key
from ganeti_htools.cli.report.layout import table
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model.cluster import Disk, common_suffix
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, of_class, of_unit
from ganeti_htools.model.node_reservations import node_reservations
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_NAMES, DesiredUnit, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import unit_on

DEFAULT_FIELDS = (
    *("status", "name", "tmem", "nmem", "imem", "xmem", "fmem", "umem", "rmem", "tdsk", "fdsk", "tcpu"),
    *("ucpu", "pcnt", "scnt", "pfmem", "pfdsk", "rcpu", "cload", "mload", "dload", "nload"),
)


class _Field(NamedTuple):
    """A column of the node table; ``cells`` makes those of all nodes."""

    header: str
    numeric: bool
    cells: Callable[[State], list[str]]


def _ints(header: str, width: int, figures: Callable[[State], Ints]) -> _Field:
    return _Field(header, True, lambda state: [f"{figure:{width}}" for figure in figures(state).tolist()])


def _floats(header: str, width: int, digits: int, figures: Callable[[State], Floats]) -> _Field:
    def cells(state: State) -> list[str]:
        # A node that reports nothing has 0 of everything, and shows ratios like 0/0.
        with np.errstate(divide="ignore", invalid="ignore"):
            return [fixed(figure, digits).rjust(width) for figure in figures(state).tolist()]

    return _Field(header, True, cells)


def _names(state: State) -> list[str]:
    suffix = common_suffix(state.cluster)
    return [node.name.removesuffix(suffix) for node in state.cluster.nodes]


def _status(state: State) -> list[str]:
    columns = state.columns
    return [
        "-" if offline else "*" if failing else " "
        for offline, failing in zip(columns.offline, columns.fail_n1, strict=True)
    ]


def _disk_ratio(state: State) -> Floats:
    columns = state.columns
    free = np.where(columns.excl_stor, columns.f_spindles, columns.f_dsk)
    total = np.where(columns.excl_stor, columns.t_spindles, columns.t_dsk)
    return np.where(total == 0, 1.0, free / total)


def _lists(header: str, of: Callable[[State, int], Ints]) -> _Field:
    def cells(state: State) -> list[str]:
        return [_list(map(str, of(state, node).tolist())) for node in range(len(state.cluster.nodes))]

    return _Field(header, True, cells)


def _list(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def _peers(state: State) -> list[str]:
    """For each node, the primaries (rows) of instances that it is secondary for, and the memory (MiB) that it
    keeps free for each of them; the most memory first.
    """
    cells = []
    for kept in state.peers.T:
        peers = sorted(np.flatnonzero(kept).tolist(), key=lambda peer: -kept[peer])
        cells.append(_list(f"({peer},{kept[peer]})" for peer in peers))
    return cells


def _exclusion(state: State) -> list[str]:
    return [
        ",".join(f"{tag}={counts[row]}" for tag, row in state.tag_rows.items() if counts[row])
        for counts in state.tag_counts.T
    ]


def _free_memory(state: State) -> Ints:
    """Compute the free memory that nodes report (MiB), less reserved memory."""
    free = np.array([node.f_mem for node in state.cluster.nodes], np.int64)
    return free - node_reservations(state.cluster.nodes, state.units).memory


def _shown(header: str, figures: Callable[[State], Floats]) -> _Field:
    return _Field(header, True, lambda state: [show(figure) for figure in figures(state).tolist()])


_FIELDS = {
    "idx": _ints("Index", 4, lambda state: np.arange(len(state.cluster.nodes))),
    "name": _Field("Name", False, _names),
    "fqdn": _Field("Name", False, lambda state: [node.name for node in state.cluster.nodes]),
    "status": _Field("F", False, _status),
    "tmem": _floats("t_mem", 5, 0, lambda state: state.columns.t_mem),
    "nmem": _ints("n_mem", 5, lambda state: state.columns.n_mem),
    "xmem": _ints("x_mem", 5, lambda state: state.columns.x_mem),
    "fmem": _ints("f_mem", 5, _free_memory),
    "umem": _ints("u_mem", 5, lambda state: state.columns.unallocated),
    "imem": _ints("i_mem", 5, lambda state: state.columns.i_mem),
    "rmem": _ints("r_mem", 5, lambda state: state.columns.r_mem),
    "amem": _ints("a_mem", 5, lambda state: np.maximum(state.columns.unallocated - state.columns.r_mem, 0)),
    "tdsk": _floats("t_dsk", 5, 0, lambda state: state.columns.t_dsk / 1024),
    "fdsk": _ints("f_dsk", 5, lambda state: state.columns.f_dsk // 1024),
    "tcpu": _floats("pcpu", 4, 0, lambda state: state.columns.t_cpu),
    "ucpu": _ints("vcpu", 4, lambda state: state.columns.u_cpu),
    "pcnt": _ints("pcnt", 3, lambda state: state.columns.primaries),
    "scnt": _ints("scnt", 3, lambda state: state.columns.secondaries),
    "plist": _lists("primaries", State.primaries_of),
    "slist": _lists("secondaries", State.secondaries_of),
    "pfmem": _floats("p_fmem", 6, 4, lambda state: state.columns.unallocated / state.columns.t_mem),
    "pfdsk": _floats("p_fdsk", 6, 4, _disk_ratio),
    "rcpu": _floats("r_cpu", 5, 2, lambda state: state.columns.u_cpu / state.columns.t_cpu),
    "cload": _floats("lCpu", 5, 3, lambda state: state.columns.load_cpu),
    "mload": _floats("lMem", 5, 3, lambda state: state.columns.load_mem),
    "dload": _floats("lDsk", 5, 3, lambda state: state.columns.load_dsk),
    "nload": _floats("lNet", 5, 3, lambda state: state.columns.load_net),
    "ptags": _Field("PrimaryTags", False, _exclusion),
    "peermap": _Field("PeerMap", False, _peers),
    "spindle_count": _ints("NodeSpindles", 0, lambda state: state.columns.t_spindles),
    "hi_spindles": _shown("MaxSpindles", lambda state: state.columns.hi_spindles),
    "inst_spindles": _shown("InstSpindles", lambda state: state.columns.inst_spindles),
}


def nodes(state: State, fields: Sequence[str] = (), scope: Bools | None = None) -> str:
    """A table of the nodes (in scope) with these fields.

    Without ``fields`` it has the usual ones; fields after a ``+`` are added. ``tdsk/UNIT`` and
    ``fdsk/UNIT`` are about a storage unit, ``tres/CLASS``, ``fres/CLASS`` and ``rres/CLASS`` about a custom
    resource class.
    """
    if not fields or fields[0] == "+":
        fields = (*DEFAULT_FIELDS, *fields[1:])
    chosen = [
        _FIELDS.get(field) or _class_field(state, field) or _unit_field(state, field) for field in fields
    ]
    cells: Iterable[Sequence[str]] = zip(*(field.cells(state) for field in chosen), strict=True)
    rows = list(cells if scope is None else compress(cells, scope.tolist()))
    return table([field.header for field in chosen], rows, [field.numeric for field in chosen])


def missing_fields(state: State, fields: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each field that does not exist, or whose storage unit no node has."""
    for field in fields:
        if field == "+" or field in _FIELDS or _class_field(state, field):
            continue
        unit = _unit_of(state, field)
        if unit is None or _unit_field(state, field) is _unknown:
            yield f"--print-nodes: unknown field {field!r}; htools(1) lists the fields"
        elif not any(unit_on(node, state.units, unit) for node in state.cluster.nodes):
            yield f"--print-nodes: field {field!r}: no node has this storage unit"


def _class_field(state: State, field: str) -> _Field | None:
    """A field like ``fres/CUSTOM_GPU``: the total, free or reserved amount."""
    name, _, words = field.partition("/")
    if name not in _OF_CLASS or words not in state.units.classes:
        return None
    figure = of_class(_OF_CLASS[name], state.units.classes.index(words))
    return _ints(f"{_OF_CLASS[name]}_{words}", 5, lambda state: getattr(state.columns, figure))


_OF_CLASS = {"tres": "t", "fres": "f", "rres": "r"}


def _unit_field(state: State, field: str) -> _Field:
    """A field like ``fdsk/lvm-vg/ssdvg`` (GiB); nodes without the unit show ``-``."""
    name, _, words = field.partition("/")
    unit = _unit_of(state, field)
    if unit is None or name not in _OF_UNIT:
        return _unknown
    header, of_pool = _OF_UNIT[name]

    def cells(state: State) -> list[str]:
        there = [unit_on(node, state.units, unit) for node in state.cluster.nodes]
        if unit in state.units.local:  # as moves leave it
            figures = getattr(state.columns, of_unit(header, state.units.local.index(unit))).tolist()
        else:
            figures = [of_pool(each) if each else 0 for each in there]
        return [f"{int(mib) // 1024:5}" if each else "-" for each, mib in zip(there, figures, strict=True)]

    return _Field(f"{header}/{words}", True, cells)


_OF_UNIT: dict[str, tuple[str, Callable[[Unit], int]]] = {
    "tdsk": ("t_dsk", lambda unit: unit.total),
    "fdsk": ("f_dsk", lambda unit: unit.free),
}
_TEMPLATES = {template.value: template for template in DiskTemplate}


def _unit_of(state: State, field: str) -> DesiredUnit | None:
    """Return the unit of a field: ``TYPE/KEY``, or the default one of a disk template or type.

    None if that is none. Ganeti's design "storage types" has ``dtotal/drbd``.
    """
    words = field.partition("/")[2]
    kind, _, key = words.partition("/")
    if key:
        return DesiredUnit(TYPE_NAMES[kind], decode_key(key)) if kind in TYPE_NAMES else None
    if kind in _TEMPLATES:
        return state.units.unit_of(Disk(0), _TEMPLATES[kind])
    return state.units.default(TYPE_NAMES[kind]) if kind in TYPE_NAMES else None


_unknown = _Field("<unknown field>", False, lambda state: ["<unknown field>"] * len(state.cluster.nodes))


def instances(state: State, scope: Bools | None = None) -> str:
    """A table of the instances whose primary is in scope, with the nodes they have in this state."""
    names = [node.name for node in state.cluster.nodes]
    rows = [
        (
            "R" if instance.status.running else " ",
            instance.name,
            names[pnode],
            "" if snode == NOWHERE else names[snode],
            "Y" if instance.auto_balance else "N",
            f"{instance.vcpus:3}",
            f"{instance.mem:5}",
            f"{instance.dsk // 1024:5}",
            *(fixed(getattr(instance.load, kind), 3).rjust(5) for kind in ("cpu", "mem", "dsk", "net")),
        )
        for instance, pnode, snode in zip(
            state.cluster.instances, state.pnode.tolist(), state.snode.tolist(), strict=True
        )
    ]
    if scope is not None:
        rows = list(compress(rows, scope[state.pnode].tolist()))
    return table(_INSTANCE_HEADER, rows, [False] * 5 + [True] * 7)


_INSTANCE_HEADER = (
    *("F", "Name", "Pri_node", "Sec_node", "Auto_bal"),
    *("vcpu", "mem", "dsk", "lCpu", "lMem", "lDsk", "lNet"),
)


def node_status(title: str, state: State, fields: Sequence[str] | None, scope: Bools | None = None) -> str:
    """The nodes (in scope) as ``--print-nodes`` shows them, and warnings about fields that do not exist.

    Empty without ``fields``.
    """
    if fields is None:
        return ""
    warnings = "".join(f"Warning: {text}\n" for text in missing_fields(state, fields))
    return f"\n{title} status:\n{nodes(state, fields, scope)}\n{warnings}"


def instance_map(title: str, state: State, scope: Bools | None = None) -> str:
    """The instances whose primary is in scope, as ``--print-instances`` shows them."""
    return f"\n{title} instance map:\n{instances(state, scope)}"


def components(figures: Statistics) -> str:
    """A table of the components of the score; without rows if no node is online."""
    rows = [
        (name, fixed(float(value), 8), f"x{weight:.2f}")
        for name, weight, value in zip(figures.names, figures.weights, figures.components(), strict=True)
        if figures.online and weight
    ]
    return table(("Field", "Value", "Weight"), rows, (False, True, True), "  ")
