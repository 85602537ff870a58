"""Any cluster that a text file can describe."""

from hypothesis import strategies as st

from ganeti_htools.model.cluster import MAX_MIB, Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.policy import IPolicy, ISpec, MinMax
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status

names = st.text("ab1.-_ äß字", min_size=1, max_size=6)
tags = st.lists(st.text("ab:1ä", min_size=1, max_size=5), max_size=3).map(tuple)
sizes = st.integers(0, MAX_MIB)
free = st.integers(-MAX_MIB, MAX_MIB)  # negative where more is promised than there is
totals = sizes.map(float)
ratios = st.floats(0, MAX_MIB, allow_subnormal=False)
ispecs = st.builds(ISpec, *[sizes] * 6)
ipolicies = st.builds(
    IPolicy,
    minmax=st.lists(st.builds(MinMax, ispecs, ispecs), max_size=2).map(tuple),
    std=ispecs,
    disk_templates=st.lists(st.sampled_from(DiskTemplate), unique=True).map(tuple),
    vcpu_ratio=ratios,
    spindle_ratio=ratios,
)


def _nodes(name: str, groups: list[str]) -> st.SearchStrategy[Node]:
    def node(role: str) -> st.SearchStrategy[Node]:
        return st.builds(
            Node,
            name=st.just(name),
            group=st.sampled_from(groups),
            t_mem=totals,
            n_mem=sizes,
            f_mem=free,
            t_dsk=totals,
            f_dsk=free,
            t_cpu=totals,
            n_cpu=sizes,
            t_spindles=sizes,
            f_spindles=free,
            cpu_speed=ratios,
            offline=st.just(role == "offline"),
            excl_stor=st.booleans(),
            master=st.just(role == "master"),
            tags=tags,
        )

    return st.sampled_from(["offline", "master", "regular"]).flatmap(node)


def _instances(nodes: list[str]) -> st.SearchStrategy[Instance]:
    @st.composite
    def instance(draw: st.DrawFn) -> Instance:
        dsk = draw(sizes)
        pnode, *others = draw(st.permutations(nodes))
        return Instance(
            name=draw(names),
            mem=draw(sizes),
            dsk=dsk,
            disks=(Disk(dsk, draw(st.none() | sizes)),),
            vcpus=draw(sizes),
            status=draw(st.sampled_from(Status)),
            tags=draw(tags),
            auto_balance=draw(st.booleans()),
            pnode=pnode,
            snode=draw(st.sampled_from([None, *others])),
            template=draw(st.sampled_from(DiskTemplate)),
            spindle_use=draw(sizes),
            forthcoming=draw(st.booleans()),
        )

    return instance()


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters as a file has them: an instance has one disk, all nodes are known in full."""
    words = draw(st.lists(names, max_size=6, unique=True))
    groups = [
        Group(name, uuid, draw(st.sampled_from(AllocPolicy)), draw(tags), draw(ipolicies), draw(tags))
        for name, uuid in zip(words[::2], words[1::2], strict=False)
    ]
    uuids = [group.uuid for group in groups]
    hosts = draw(st.lists(names, max_size=4 if groups else 0, unique=True))
    return Cluster(
        groups=tuple(groups),
        nodes=tuple(draw(_nodes(host, uuids)) for host in hosts),
        instances=tuple(draw(st.lists(_instances(hosts), max_size=4 if hosts else 0))),
        tags=draw(tags),
        ipolicy=draw(ipolicies),
    )
