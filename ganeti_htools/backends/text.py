"""The text format of cluster data (``htools(1)``, option ``--text-data``).

Five sections separated by empty lines: groups, nodes, instances, cluster tags, policies. Lines are
columns separated by ``|``. Newer versions of Ganeti appended columns, and the policies; an older file
gets their defaults. Columns and sections beyond those known are ignored.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import astuple, replace

from ganeti_htools.backends import haskell, inventories, units, values
from ganeti_htools.backends.inventory_tags import without_tagged_inventories
from ganeti_htools.backends.sections import SectionFormat, SectionLine, parse_lines, split_sections
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node, check
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.policy import IPolicy, ISpec, MinMax
from ganeti_htools.model.storage import Unit
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

# Marks a missing column, as opposed to an empty one.
_ABSENT = "\0"

_GROUPS = SectionFormat("group", "groups", ("name", "UUID", "allocation policy", "tags", "networks"), ("",))
_NODES = SectionFormat(
    "node",
    "nodes",
    (
        *("name", "total memory", "memory used by the node", "free memory", "total disk", "free disk"),
        *("cores", "role", "group", "spindles", "tags", "exclusive storage", "free spindles"),
        *("CPUs used by the node", "CPU speed", "storage", "inventories"),
    ),
    ("1", "", "N", "0", "1", "1.0", _ABSENT, ""),
)
_INSTANCES = SectionFormat(
    "instance",
    "instances",
    (
        *("name", "memory", "disk", "vcpus", "status", "auto_balance", "primary node", "secondary node"),
        *("disk template", "tags", "spindle use", "spindles", "forthcoming", "disks"),
    ),
    ("1", "-", "N", _ABSENT),
)

_YES_NO = {"Y": True, "N": False}
_ROLES = {"Y": "offline", "N": "regular", "M": "master"}

# Nodes without live data have a question mark in one of these.
_LIVE = ("total memory", "memory used by the node", "free memory", "total disk", "free disk", "cores")


def parse(text: str, source: str) -> Cluster:
    """The cluster that ``text`` describes; ``source`` names it in errors. Raises DataError."""
    sections = split_sections(text)
    if len(sections) < 4:
        raise DataError(
            f"{source}: Invalid format of the input file: {len(sections)} sections instead of 4 or more"
        )
    groups, nodes, instances, tags, policies = (*sections, [])[:5]
    cluster = Cluster(
        groups=tuple(map(_group, parse_lines(source, _GROUPS, groups))), tags=tuple(line for _, line in tags)
    )
    uuids = {group.uuid for group in cluster.groups}
    cluster = replace(cluster, nodes=tuple(_node(row, uuids) for row in parse_lines(source, _NODES, nodes)))
    try:
        check(cluster)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    cluster = _with_policies(cluster, parse_lines(source, _POLICIES, policies))
    # Names of instances may repeat, unlike those of nodes: they do in files that Ganeti's tools accept.
    names = {node.name for node in cluster.nodes}
    found = (_instance(row, names) for row in parse_lines(source, _INSTANCES, instances))
    return replace(cluster, instances=tuple(found))


def ignored_lines(text: str, source: str) -> list[str]:
    """Return a warning if there are lines after the fifth section, which :func:`parse` ignores."""
    extra = [number for section in split_sections(text)[5:] for number, _ in section]
    if not extra:
        return []
    names = "groups, nodes, instances, tags, policies"
    return [f"{source}: line {extra[0]}: ignored from here on; expected five sections: {names}"]


def _group(row: SectionLine) -> Group:
    return Group(
        name=row.name(),
        uuid=row.name("UUID"),
        alloc_policy=row.member("allocation policy", AllocPolicy),
        tags=row.names("tags"),
        networks=row.names("networks"),
    )


def _node(row: SectionLine, groups: Container[str]) -> Node:
    group = row.existing("group", "group", groups)
    there = row.read("inventories", inventories.read_inventories)
    if any(row.fields[column] == "?" for column in _LIVE):
        return Node(row.name(), group, n_cpu=0, t_spindles=0, offline=True, inventories=there)
    role = row.choice("role", _ROLES)
    return Node(
        name=row.name(),
        group=group,
        t_mem=row.number("total memory"),
        n_mem=row.whole("memory used by the node"),
        f_mem=row.signed("free memory"),
        t_dsk=row.number("total disk"),
        f_dsk=row.signed("free disk"),
        t_cpu=row.number("cores"),
        n_cpu=row.whole("CPUs used by the node"),
        t_spindles=row.whole("spindles"),
        f_spindles=row.signed("free spindles"),
        cpu_speed=row.number("CPU speed"),
        offline=role == "offline",
        excl_stor=row.choice("exclusive storage", _YES_NO),
        master=role == "master",
        tags=row.names("tags"),
        storage=_storage(row),
        inventories=there,
    )


def _storage(row: SectionLine) -> tuple[Unit, ...] | None:
    if row.fields["storage"] in (_ABSENT, units.UNKNOWN):
        return None
    return row.read("storage", units.read_units)


def _disks(row: SectionLine, space: int) -> tuple[Disk, ...]:
    """Return the disks of an instance; without a column for disks, one disk of its whole space."""
    spindles = None if row.fields["spindles"] == "-" else row.whole("spindles")
    if row.fields["disks"] == _ABSENT:
        return (Disk(space, spindles),)
    template = row.member("disk template", DiskTemplate)
    disks = row.read("disks", lambda text: units.read_disks(text, template))
    if spindles is None or any(disk.spindles is not None for disk in disks):
        return disks
    return tuple(replace(disk, spindles=0 if number else spindles) for number, disk in enumerate(disks))


def _instance(row: SectionLine, nodes: Container[str]) -> Instance:
    disk = row.whole("disk")
    pnode = row.existing("primary node", "node", nodes)
    snode = row.existing("secondary node", "node", nodes) if row.fields["secondary node"] else None
    if snode == pnode:
        raise row.error("secondary node", f"Instance has same primary and secondary node - {pnode}")
    return Instance(
        name=row.name(),
        mem=row.whole("memory"),
        dsk=disk,
        disks=_disks(row, disk),
        vcpus=row.whole("vcpus"),
        status=row.member("status", Status),
        tags=row.names("tags"),
        auto_balance=row.choice("auto_balance", _YES_NO),
        pnode=pnode,
        snode=snode,
        template=row.member("disk template", DiskTemplate),
        spindle_use=row.whole("spindle use"),
        forthcoming=row.choice("forthcoming", _YES_NO),
    )


def _with_policies(cluster: Cluster, parse_lines: Iterable[SectionLine]) -> Cluster:
    """Return the cluster with these policies: its own, and those of groups by name or UUID."""
    owners = Counter(name for group in cluster.groups for name in {group.name, group.uuid})
    policies = {}
    for row in parse_lines:
        owner = row.fields["name"]
        if owner and owners[owner] != 1:
            raise row.error("name", f"expected the name or UUID of one group, which {owners[owner]} have")
        policies[owner] = _policy(row)

    def of(group: Group) -> IPolicy:
        return policies.get(group.name) or policies.get(group.uuid) or group.ipolicy

    return replace(
        cluster,
        groups=tuple(replace(group, ipolicy=of(group)) for group in cluster.groups),
        ipolicy=policies.get("", cluster.ipolicy),
    )


def digest(cluster: Cluster) -> str:
    from hashlib import sha256  # seldom needed

    return sha256(dump(cluster).encode()).hexdigest()[:16]


def dump(cluster: Cluster) -> str:
    """Write the cluster in this format, byte for byte as Ganeti's tools do."""
    if cluster.default_units:
        cluster = units.with_explicit_units(cluster)
    cluster = without_tagged_inventories(cluster)
    apart = units.needs_disk_column(cluster)
    policies = [("", cluster.ipolicy), *((group.name, group.ipolicy) for group in cluster.groups)]
    sections = (
        map(_group_line, cluster.groups),
        map(_node_line, cluster.nodes),
        (_instance_line(instance, apart) for instance in cluster.instances),
        cluster.tags,
        (_policy_line(owner, policy) for owner, policy in policies),
    )
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)


def _yes(flag: bool) -> str:
    return "Y" if flag else "N"


def _group_line(group: Group) -> str:
    return "|".join(
        (group.name, group.uuid, group.alloc_policy.value, ",".join(group.tags), ",".join(group.networks))
    )


def _node_line(node: Node) -> str:
    role = "Y" if node.offline else "M" if node.master else "N"
    return (
        f"{node.name}|{node.t_mem:.0f}|{node.n_mem}|{node.f_mem}|{node.t_dsk:.0f}|{node.f_dsk}"
        f"|{node.t_cpu:.0f}|{role}|{node.group}|{node.t_spindles}|{','.join(node.tags)}"
        f"|{_yes(node.excl_stor)}|{node.f_spindles}|{node.n_cpu}|{haskell.positional(node.cpu_speed)}"
        f"{''.join(f'|{column}' for column in _more(node))}"
    )


def _more(node: Node) -> list[str]:
    """Return the last columns of a node, written only if they are set."""
    columns = [] if node.storage is None else [units.write_units(node.storage)]
    if node.inventories:
        columns = [*(columns or [units.UNKNOWN]), inventories.write_inventories(node.inventories)]
    return columns


def _instance_line(instance: Instance, apart: bool) -> str:
    spindles = instance.spindles
    return (
        f"{instance.name}|{instance.mem}|{instance.dsk}|{instance.vcpus}|{instance.status.value}"
        f"|{_yes(instance.auto_balance)}|{instance.pnode}|{instance.snode or ''}"
        f"|{instance.template.value}|{','.join(instance.tags)}|{instance.spindle_use}"
        f"|{'-' if spindles is None else spindles}|{_yes(instance.forthcoming)}"
        f"{'|' + units.write_disks(instance.disks) if apart else ''}"
    )


_POLICIES = SectionFormat(
    "policy",
    "policies",
    ("name", "standard spec", "min and max specs", "disk templates", "vcpu ratio", "spindle ratio"),
)
_SPEC = ("memory size", "CPU count", "disk size", "disk count", "NIC count", "spindle use")


def _policy(row: SectionLine) -> IPolicy:
    """The policy of a line. Raises DataError."""
    return IPolicy(
        minmax=row.read("min and max specs", _minmax),
        std=row.read("standard spec", _ispec),
        disk_templates=row.read("disk templates", _templates),
        vcpu_ratio=row.number("vcpu ratio"),
        spindle_ratio=row.number("spindle ratio"),
    )


def _templates(text: str) -> tuple[DiskTemplate, ...]:
    return tuple(values.member(part, DiskTemplate) for part in values.several(text, ","))


def _ispec(text: str) -> ISpec:
    parts = values.several(text, ",")
    if len(parts) < len(_SPEC):
        raise DataError(f"expected {', '.join(_SPEC)}, not {values.quote(text)}")
    return ISpec(*(values.read(values.whole, *pair) for pair in zip(parts, _SPEC, strict=False)))


def _minmax(text: str) -> tuple[MinMax, ...]:
    specs = [_ispec(part) for part in values.several(text, ";")]
    if len(specs) % 2:
        raise DataError(f"expected pairs of min and max specs, found {len(specs)} specs")
    return tuple(map(MinMax, specs[::2], specs[1::2]))


def _policy_line(owner: str, policy: IPolicy) -> str:
    """The line of a policy: the cluster's own has no owner."""
    pairs = (_spec_text(spec) for pair in policy.minmax for spec in (pair.min, pair.max))
    templates = ",".join(template.value for template in policy.disk_templates)
    ratios = f"{haskell.show(policy.vcpu_ratio)}|{haskell.show(policy.spindle_ratio)}"
    return f"{owner}|{_spec_text(policy.std)}|{';'.join(pairs)}|{templates}|{ratios}"


def _spec_text(spec: ISpec) -> str:
    return ",".join(map(str, astuple(spec)))
