import random
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import DEFAULT_IPOLICY, IPolicy, ISpec, MinMax
from ganeti_htools.model.types import AllocPolicy, DiskTemplate, Status
from tests.support.strategies import clusters

FILE = """\
group1|uuid-1|preferred|blue,green|net-1
group2|uuid-2|last_resort||

node1|65536|1024|32768|4194304.5|2097152|32|M|uuid-1|2|rack:a|N|0|1|1.0
node2|65536|1024|-1|1e6|5|32|N|uuid-1|2||Y|3|4|0.5
node3|?|1024|32768|4194304|2097152|32|N|uuid-2|7|rack:b|Y|8|9|2.5
node4|0|0|0|0|0|0|Y|uuid-2|1||N|0|1|1.0

inst1|1024|10368|2|running|Y|node1|node2|drbd|service:web,x|3|4|N
inst2|512|0|1|ADMIN_down|N|node2||diskless||1|-|Y

htools:iextags:service
any | thing

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain|4.0|32.0
group2|1,2,3,4,5,6||ext|1.0e-2|1.0e7
"""


def test_every_column_has_its_place() -> None:
    assert text.parse(FILE, "x.data") == Cluster(
        groups=(
            Group("group1", "uuid-1", AllocPolicy.PREFERRED, ("net-1",), DEFAULT_IPOLICY, ("blue", "green")),
            Group(
                "group2",
                "uuid-2",
                AllocPolicy.LAST_RESORT,
                ipolicy=IPolicy((), ISpec(1, 2, 3, 4, 5, 6), (DiskTemplate.EXT,), 0.01, 1e7),
            ),
        ),
        nodes=(
            Node(
                name="node1",
                group="uuid-1",
                t_mem=65536.0,
                n_mem=1024,
                f_mem=32768,
                t_dsk=4194304.5,
                f_dsk=2097152,
                t_cpu=32.0,
                n_cpu=1,
                t_spindles=2,
                f_spindles=0,
                cpu_speed=1.0,
                master=True,
                tags=("rack:a",),
            ),
            Node(
                name="node2",
                group="uuid-1",
                t_mem=65536.0,
                n_mem=1024,
                f_mem=-1,
                t_dsk=1e6,
                f_dsk=5,
                t_cpu=32.0,
                n_cpu=4,
                t_spindles=2,
                f_spindles=3,
                cpu_speed=0.5,
                excl_stor=True,
            ),
            Node("node3", "uuid-2", n_cpu=0, t_spindles=0, offline=True),
            Node("node4", "uuid-2", offline=True),
        ),
        instances=(
            Instance(
                name="inst1",
                mem=1024,
                dsk=10368,
                disks=(Disk(10368, 4),),
                vcpus=2,
                status=Status.RUNNING,
                tags=("service:web", "x"),
                auto_balance=True,
                pnode="node1",
                snode="node2",
                template=DiskTemplate.DRBD,
                spindle_use=3,
            ),
            Instance(
                name="inst2",
                mem=512,
                dsk=0,
                disks=(Disk(0),),
                vcpus=1,
                status=Status.DOWN,
                auto_balance=False,
                pnode="node2",
                template=DiskTemplate.DISKLESS,
                forthcoming=True,
            ),
        ),
        tags=("htools:iextags:service", "any | thing"),
        ipolicy=IPolicy(
            (MinMax(ISpec(128, 1, 1024, 1, 1, 1), ISpec(32768, 8, 1048576, 16, 8, 12)),),
            ISpec(128, 1, 1024, 1, 1, 1),
            (DiskTemplate.DRBD, DiskTemplate.PLAIN),
            4.0,
            32.0,
        ),
    )


@pytest.mark.parametrize("told", [False, True])
@given(data=st.data())
def test_what_is_written_is_read_again(told: bool, data: st.DataObject) -> None:
    """With storage units and inventories, and without."""
    cluster = data.draw(clusters(told=told))
    assert text.parse(text.dump(cluster), "x.data") == cluster
    some = (("CUSTOM_GPU", Inventory(4, 1)), ("MEMORY_MB", Inventory(0, 512)))
    nodes = [replace(node, inventories=some if data.draw(st.booleans()) else ()) for node in cluster.nodes]
    having = replace(cluster, nodes=tuple(nodes))
    assert text.parse(text.dump(having), "x.data") == having


def test_inventories_are_the_last_column_of_a_node() -> None:
    (node,) = text.parse(f"{GROUP}\n\n{NODE}|-|CUSTOM_GPU,4,1\n\n\n", "x.data").nodes
    assert (node.storage, node.inventories) == (None, (("CUSTOM_GPU", Inventory(4, 1)),))
    silent = "n|?|0|0|0|0|0|Y|uuid-1|1||N|0|1|1.0|-|CUSTOM_GPU,4"
    (offline,) = text.parse(f"{GROUP}\n\n{silent}\n\n\n", "x.data").nodes
    assert offline.inventories == (("CUSTOM_GPU", Inventory(4)),)
    with pytest.raises(
        DataError, match=r"line 3: node .*: inventories: resource class 'GPU': expected CUSTOM_"
    ):
        text.parse(f"{GROUP}\n\n{NODE}|-|GPU,4\n\n\n", "x.data")


def test_several_disks_are_written_as_one() -> None:
    cluster = text.parse(FILE, "x.data")
    disks = (Disk(8000, 3), Disk(2240, 1))
    several = replace(cluster, instances=(replace(cluster.instances[0], disks=disks),))
    assert text.parse(text.dump(several), "x.data").instances == cluster.instances[:1]
    unknown = replace(cluster, instances=(replace(cluster.instances[0], disks=(*disks, Disk(128))),))
    assert text.parse(text.dump(unknown), "x.data").instances[0].spindles is None


def cut(line: str, columns: int) -> str:
    return "|".join(line.split("|")[:columns])


GROUP, NODE, INSTANCE = FILE.splitlines()[0], FILE.splitlines()[4], FILE.splitlines()[8]


@pytest.mark.parametrize("columns", range(9, 16))
def test_nodes_of_older_files_get_defaults(columns: int) -> None:
    (full,) = text.parse(f"{GROUP}\n\n{NODE}\n\n\n", "x.data").nodes
    (node,) = text.parse(f"{GROUP}\n\n{cut(NODE, columns)}\n\n\n", "x.data").nodes
    added = {"t_spindles": 1, "tags": (), "excl_stor": False, "f_spindles": 0, "n_cpu": 1, "cpu_speed": 1.0}
    missing = list(added)[columns - 9 :]
    assert node == replace(full, **{name: added[name] for name in missing})  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", range(10, 14))
def test_instances_of_older_files_get_defaults(columns: int) -> None:
    line = INSTANCE.removesuffix("N") + "Y"
    head = "\n".join(FILE.splitlines()[:6])
    (full,) = text.parse(f"{head}\n\n{line}\n\n", "x.data").instances
    (instance,) = text.parse(f"{head}\n\n{cut(line, columns)}\n\n", "x.data").instances
    added = {"spindle_use": 1, "disks": (Disk(10368),), "forthcoming": False}
    missing = list(added)[columns - 10 :]
    assert instance == replace(full, **{name: added[name] for name in missing})  # type: ignore[arg-type]


def test_groups_of_older_files_have_no_networks() -> None:
    (group,) = text.parse(f"{cut(GROUP, 4)}\n\n\n\n", "x.data").groups
    assert group == Group("group1", "uuid-1", tags=("blue", "green"))


def test_older_files_have_no_policies() -> None:
    old, _, _ = FILE.rpartition("\n\n")
    cluster = text.parse(old + "\n", "x.data")
    assert cluster.ipolicy == DEFAULT_IPOLICY
    assert [group.ipolicy for group in cluster.groups] == [DEFAULT_IPOLICY] * 2


def test_what_newer_files_add_is_ignored() -> None:
    newer = FILE.replace("|1.0\n", "|1.0|||new\n").replace("|net-1\n", "|net-1|new|new\n") + "\nnew\n\nnew\n"
    assert text.parse(newer, "x.data") == text.parse(FILE.replace("|1.0\n", "|1.0|\n"), "x.data")


def test_a_policy_may_name_its_group_by_uuid() -> None:
    by_uuid = FILE.replace("group2|1,2", "uuid-2|1,2")
    assert text.parse(by_uuid, "x.data") == text.parse(FILE, "x.data")


def test_the_last_policy_of_an_owner_counts() -> None:
    again = FILE + "group2|6,5,4,3,2,1||plain|1|2\n"
    assert text.parse(again, "x.data").groups[1].ipolicy.std == ISpec(6, 5, 4, 3, 2, 1)


def test_two_instances_may_have_one_name() -> None:
    twins = text.parse(FILE.replace("inst2", "inst1"), "x.data")
    assert [instance.name for instance in twins.instances] == ["inst1", "inst1"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("|last_resort|", "|first|", "groups section, line 2: group 'group2': allocation policy: .*'first'"),
        (
            "group2|uuid-2|last_resort||\n",
            "group2|uuid-2|last_resort\n",
            "groups section, line 2: .*3 columns",
        ),
        ("group1|", "|", "groups section, line 1: group '': name: expected a name, not ''"),
        (
            "group2|uuid-2",
            "group3|uuid-1|preferred||\ngroup2|uuid-2",
            "group 'uuid-1' appears more than once",
        ),
        ("|65536|1024|-1", "|-1|1024|-1", "nodes section, line 5: node 'node2': total memory: .*'-1'"),
        ("|65536|1024|-1", "|NaN|1024|-1", "nodes section, line 5: node 'node2': total memory: .*'NaN'"),
        ("|65536|1024|-1", "|1e99|1024|-1", "nodes section, line 5: node 'node2': total memory: .*'1e99'"),
        ("|65536|1024|-1", "|65536|-5|-1", "line 5: node 'node2': memory used by the node: .*'-5'"),
        ("|65536|1024|-1", "|65536|1024|x", "line 5: node 'node2': free memory: cannot parse string 'x'"),
        ("|32|M|", "|32|?|", "line 4: node 'node1': role: expected one of Y, N, M, not '\\?'"),
        ("|Y|3|4|", "|X|3|4|", "line 5: node 'node2': exclusive storage: expected one of Y, N, not 'X'"),
        ("|0.5\n", "|Infinity\n", "line 5: node 'node2': CPU speed: .*'Infinity'"),
        ("|M|uuid-1|2|rack:a|N|0|1|1.0", "", "nodes section, line 4: .*7 columns, expected at least 9"),
        ("|M|uuid-1|", "|M|uuid-9|", "line 4: group: Unknown group 'uuid-9' for node node1"),
        ("node2|65536", "node1|65536", "node 'node1' appears more than once"),
        ("inst1|1024|", "inst1|-1024|", "instances section, line 9: instance 'inst1': memory: .*'-1024'"),
        ("|10368|", "|1180591620717411303424|", "line 9: instance 'inst1': disk: .*'1180591620717411303424'"),
        ("|running|", "|flying|", "line 9: instance 'inst1': status: expected one of .*, not 'flying'"),
        ("|running|Y|", "|running|y|", "line 9: instance 'inst1': auto_balance: .*'y'"),
        ("|node1|node2|", "|node1|node9|", "line 9: secondary node: Unknown node 'node9' for instance inst1"),
        ("|node1|node2|", "||node2|", "line 9: primary node: Unknown node '' for instance inst1"),
        (
            "|node1|node2|",
            "|node1|node1|",
            "line 9: .*: Instance has same primary and secondary node - node1",
        ),
        ("|drbd|service", "|raid|service", "line 9: instance 'inst1': disk template: .*'raid'"),
        ("|3|4|N", "|3|x|N", "line 9: instance 'inst1': spindles: .*'x'"),
        ("|1|-|Y", "|1|-|?", "line 10: instance 'inst2': forthcoming: .*'\\?'"),
        ("\n|128,1,", "\n|128,x,", "policies section, line 15: policy '': standard spec: CPU count: .*'x'"),
        ("|1,2,3,4,5,6|", "|1,2,3,4,5|", "line 16: policy 'group2': standard spec: expected memory size, .*"),
        (
            ";32768,8,",
            ";32768,8;1,",
            "line 15: policy '': min and max specs: expected memory size.*'32768,8'",
        ),
        ("|1,2,3,4,5,6||", "|1,2,3,4,5,6|1,2,3,4,5,6|", "line 16: .*: expected pairs .*, found 1 specs"),
        ("|ext|", "|ext,raid|", "line 16: policy 'group2': disk templates: .*'raid'"),
        ("|1.0e-2|", "|-1|", "line 16: policy 'group2': vcpu ratio: .*'-1'"),
        ("group2|1,2", "group9|1,2", "line 16: policy 'group9': name: expected .*one group, which 0 have"),
        ("group2|uuid-2|", "group1|uuid-2|", "line 16: policy 'group2': name: .*which 0 have"),
    ],
)
def test_an_error_names_the_place_the_object_and_the_field(old: str, new: str, error: str) -> None:
    assert FILE.count(old) == 1
    with pytest.raises(DataError, match=rf"^x\.data: (\w+ section, )?{error}"):
        text.parse(FILE.replace(old, new), "x.data")


@pytest.mark.parametrize(("content", "sections"), [("", 0), ("\n", 2), ("a|b\n", 1), ("a\n\nb\n\n\n", 4)])
def test_too_few_sections_are_refused(content: str, sections: int) -> None:
    with pytest.raises(DataError) as caught:
        text.parse(content, "x.data")
    if sections < 4:
        message = f"Invalid format of the input file: {sections} sections instead of 4 or more"
        assert str(caught.value) == f"x.data: {message}"


UNITS = FILE.replace("|0|1|1.0\n", "|0|1|1.0|7,9,lvm-vg,ssdvg,N;-5,9,drbd,a;1,2,file,/srv/50%25\n").replace(
    "|3|4|N\n", "|3|4|N|5000,lvm-vg,ssdvg,-,metavg;5240,-,-,4\n"
)


@given(st.sampled_from((FILE, UNITS)), st.randoms(use_true_random=False), st.text(max_size=3))
@example(FILE, random.Random(1), "\n")
def test_damage_is_refused_in_one_line_or_does_not_matter(
    content: str, rng: random.Random, junk: str
) -> None:
    start = rng.randrange(len(content))
    damaged = content[:start] + junk + content[start + rng.randrange(20) :]
    try:
        cluster = text.parse(damaged, "x.data")
    except DataError as error:
        assert re.fullmatch(r"x\.data: .*", str(error))  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert text.parse(text.dump(cluster), "x.data").instances == cluster.instances
