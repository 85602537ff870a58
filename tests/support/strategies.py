"""Any cluster that a text file can describe."""

from hypothesis import strategies as st

from ganeti_htools.model.cluster import MAX_MIB, Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.policy import IPolicy, ISpec, MinMax
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit, holds
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

names = st.text("ab1.-_ äß字", min_size=1, max_size=6)
tags = st.lists(st.text("ab:1ä", min_size=1, max_size=5), max_size=3).map(tuple)


keys = st.text("a/-%,;|YN é字", min_size=1, max_size=4)
desired_units = st.builds(DesiredUnit, st.sampled_from(StorageType), keys)


@st.composite
def units(draw: st.DrawFn, largest: int = MAX_MIB) -> Unit:
    """A storage unit of a node."""
    total = draw(st.integers(0, largest))
    params = draw(st.lists(st.booleans() | keys | st.just(""), max_size=2))
    return Unit(draw(desired_units), total, draw(st.integers(-largest, total)), tuple(params))


@st.composite
def clusters(draw: st.DrawFn, largest: int = MAX_MIB, *, told: bool = False) -> Cluster:
    """Clusters as a file has them: an instance has one disk, all nodes are known in full.

    ``largest`` bounds all figures. If ``told``, some nodes tell their storage units, one of them surely, and
    instances have any number of disks.
    """
    sizes = st.integers(0, largest)
    free = st.integers(-largest, largest)  # negative where more is promised than there is
    totals = sizes.map(float)
    ratios = st.floats(0, largest, allow_subnormal=False)
    ispecs = st.builds(ISpec, *[sizes] * 6)
    ipolicies = st.builds(
        IPolicy,
        minmax=st.lists(st.builds(MinMax, ispecs, ispecs), max_size=2).map(tuple),
        std=ispecs,
        disk_templates=st.lists(st.sampled_from(DiskTemplate), unique=True).map(tuple),
        vcpu_ratio=ratios,
        spindle_ratio=ratios,
    )

    words = draw(st.lists(names, max_size=6, unique=True))
    groups = tuple(
        Group(name, uuid, draw(st.sampled_from(AllocPolicy)), draw(tags), draw(ipolicies), draw(tags))
        for name, uuid in zip(words[::2], words[1::2], strict=False)
    )

    def node(name: str) -> Node:
        role = draw(st.sampled_from(["offline", "master", "regular"]))
        return Node(
            name=name,
            group=draw(st.sampled_from(groups)).uuid,
            t_mem=draw(totals),
            n_mem=draw(sizes),
            f_mem=draw(free),
            t_dsk=draw(totals),
            f_dsk=draw(free),
            t_cpu=draw(totals),
            n_cpu=draw(sizes),
            t_spindles=draw(sizes),
            f_spindles=draw(free),
            cpu_speed=draw(ratios),
            offline=role == "offline",
            excl_stor=draw(st.booleans()),
            master=role == "master",
            tags=draw(tags),
            storage=draw(storage if name == hosts[0] else st.none() | storage) if told else None,
        )

    hosts = draw(st.lists(names, max_size=4 if groups else 0, unique=True))
    storage = st.lists(units(largest), max_size=3, unique_by=lambda unit: unit.desired).map(tuple)

    def disks(template: DiskTemplate) -> st.SearchStrategy[list[Disk]]:
        kinds = [kind for kind in StorageType if holds(DesiredUnit(kind, "any"), template)]
        where = st.none() | st.builds(DesiredUnit, st.sampled_from(kinds), keys)
        return st.lists(st.builds(Disk, sizes, st.none() | sizes, where, st.none() | keys), max_size=3)

    def instance(name: str) -> Instance:
        dsk = draw(sizes)
        pnode, *others = draw(st.permutations(hosts))
        template = draw(st.sampled_from(DiskTemplate))
        return Instance(
            name=name,
            mem=draw(sizes),
            dsk=dsk,
            disks=tuple(draw(disks(template))) if told else (Disk(dsk, draw(st.none() | sizes)),),
            vcpus=draw(sizes),
            status=draw(st.sampled_from(Status)),
            tags=draw(tags),
            auto_balance=draw(st.booleans()),
            pnode=pnode,
            snode=draw(st.sampled_from([None, *others])),
            template=template,
            spindle_use=draw(sizes),
            forthcoming=draw(st.booleans()),
        )

    return Cluster(
        groups=groups,
        nodes=tuple(map(node, hosts)),
        instances=tuple(map(instance, draw(st.lists(names, max_size=4 if hosts else 0)))),
        tags=draw(tags),
        ipolicy=draw(ipolicies),
    )
