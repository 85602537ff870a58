"""Read from a luxid, or from the simulator, clusters are to our tools what they are to Debian's."""

import random
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hbal, hcheck, hinfo, hroller, hscan, hspace, hsqueeze
from tests.oracle.programs import Result, ours, theirs
from tests.oracle.test_hspace import in_common
from tests.support.clusters import TIGHT, Json, Shape, cluster
from tests.support.luxi_answers import answers, luxid
from tests.support.oracle import Oracle
from tests.support.rows import any_cluster, generated
from tests.support.simulators import simulator

pytestmark = pytest.mark.oracle

EVERYTHING = ("exclusion", "location", "migration", "desired")
CLUSTERS = {
    "small": Shape(nodes=3, instances=10),
    "varied": Shape(
        nodes=8, instances=40, groups=2, offline=1, drained=1, down=0.3, tags=EVERYTHING, policies=True
    ),
    "exclusive": Shape(nodes=6, instances=30, fill=TIGHT, exclusive_storage=True, drained=1),
    "kvm": Shape(nodes=6, instances=30, fill=TIGHT, hypervisor="kvm"),
    "empty": Shape(nodes=2, instances=0),
}


def name_of(tool: ModuleType) -> str:
    return tool.__name__.rpartition(".")[2]


@pytest.mark.parametrize("shape", [*CLUSTERS.values(), Shape(nodes=4, instances=20, forthcoming=0.3)])
def test_files(oracle: Oracle, tmp_path: Path, shape: Shape) -> None:
    """The saved file holds all that was understood."""
    socket, (ours_in, theirs_in) = tmp_path / "socket", (tmp_path / "ours", tmp_path / "theirs")
    for directory in (ours_in, theirs_in):
        directory.mkdir()
    with luxid(socket, answers(cluster(11, shape))):
        debian = theirs(oracle, "hscan", [f"-L{socket}", "-d", str(theirs_in), "-p"])
        result = ours(hscan.main, [f"-L{socket}", "-d", str(ours_in), "-p"])
    assert result == debian
    assert (ours_in / "LOCAL.data").read_text("utf-8") == (theirs_in / "LOCAL.data").read_text("utf-8")


@pytest.mark.parametrize("shape", CLUSTERS)
@pytest.mark.parametrize(
    ("tool", "options"),
    [
        (hinfo, ["-v", "-p", "--print-instances"]),
        (hcheck, ["-v"]),
        (hcheck, ["--machine-readable"]),
        (hroller, ["-f"]),
        (hspace, ["--machine-readable", "-l", "2"]),
        (hsqueeze, ["--minimal-resources=0", "--target-resources=0"]),
        (hbal, ["-C", "-G", "group1", "-l", "3", "-q"]),
    ],
)
def test_tools(oracle: Oracle, tmp_path: Path, tool: ModuleType, options: list[str], shape: str) -> None:
    name, socket = name_of(tool), tmp_path / "socket"
    if name == "hsqueeze" and shape == "varied":
        pytest.skip("nodes that are offline count as without room, but for ours")
    argv = [f"-L{socket}", *options]
    with luxid(socket, answers(cluster(12, CLUSTERS[shape]))) as asked:
        debian = theirs(oracle, name, argv)
        requests = asked.copy()
        asked.clear()
        result = ours(tool.main, argv)
    *usual, networks = asked
    assert networks["args"][0] == "network"
    assert [as_usual(request) for request in usual] == requests
    assert len(requests) == 4
    assert common(name, result) == (in_common(debian) if name == "hspace" else debian)


@pytest.mark.parametrize("seed", range(8))
def test_the_simulator_s_cluster(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    made = any_cluster(random.Random(seed))
    if not any(node.master for node in made.nodes):
        pytest.skip("no node is online, so none is master")
    with simulator(tmp_path, made) as ganeti:
        luxi = f"-L{ganeti.socket}"
        for tool, options in (
            (hinfo, ["-v", "-p", "--print-instances"]),
            (hbal, ["-C", "-p", "-q", "-l", "2", "-G", made.groups[0].name]),
        ):
            assert ours(tool.main, [luxi, *options]) == theirs(oracle, name_of(tool), [luxi, *options])
        for directory in (tmp_path / "ours", tmp_path / "theirs"):
            directory.mkdir()
        mine = ours(hscan.main, [luxi, "-d", str(tmp_path / "ours")])
        assert mine == theirs(oracle, "hscan", [luxi, "-d", str(tmp_path / "theirs")])
        saved = text.parse((tmp_path / "ours/LOCAL.data").read_text("utf-8"), "ours")
        assert {group.name: set(group.networks) for group in saved.groups} == {
            group.name: set(group.networks) for group in made.groups
        }
        saved = replace(saved, groups=tuple(replace(group, networks=()) for group in saved.groups))
        assert text.dump(saved) == (tmp_path / "theirs/LOCAL.data").read_text("utf-8")


def test_a_node_that_does_not_answer_is_named_by_both(oracle: Oracle, tmp_path: Path) -> None:
    made = generated(1, Shape(nodes=3, instances=6))
    master, lost = (node.name for node in made.nodes[:2])
    nodes = tuple(replace(node, master=node.name == master) for node in made.nodes)
    with simulator(tmp_path, replace(made, nodes=nodes), "--lose", lost) as ganeti:
        argv = [f"-L{ganeti.socket}"]
        own, debian = ours(hinfo.main, argv), theirs(oracle, "hinfo", argv)
    assert (own.status, own.err) == (0, f"Warning: node {lost} does not report, and is taken for offline\n")
    assert debian.status == 1
    assert debian.err.startswith(f"Error: failed to load data, aborting: Node '{lost}', error while ")


ONLY_OURS = {
    "node": ("powered", "master_capable", "uuid", "master_candidate"),
    "instance": ("nic.networks", "uuid"),
    "group": ("diskparams",),
}


def as_usual(request: Json) -> Json:
    """A request without the fields that only ours ask for."""
    match request["args"]:
        case [what, fields, None]:
            return request | {"args": [what, [name for name in fields if name not in ONLY_OURS[what]], None]}
    return request


def common(name: str, result: Result) -> Result:
    """Without what only ours says."""
    if name == "hspace":
        return in_common(result)
    own = "    Node failures survived", "    Health: ", "        ", "    Redistribution (hregroup)"
    lines = result.out.splitlines(keepends=True)
    if name == "hcheck":
        lines = [line for line in lines if not line.startswith(own)]
    err = re.sub(r"^no node can be spared:\n(  .*\n)+", "", result.err, flags=re.MULTILINE)
    return replace(result, out="".join(lines), err=err)
