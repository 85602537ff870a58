"""What we write is what Debian's tools write for the same file."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import simu, text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from tests.clusters import ipolicy
from tests.conftest import Oracle
from tests.messages import allocate
from tests.unit.backends.strategies import clusters

pytestmark = pytest.mark.oracle

SUITE = Path(__file__).parents[2] / ".cache/debian/usr/share/ganeti/testsuite/test/data"
DATA = Path(os.environ.get("TESTDATA_DIR", SUITE / "htools"))

# Any well-formed request does: the cluster is saved before it is looked at.
REQUEST = json.dumps(
    {
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "instances": {},
        "ipolicy": ipolicy(),
        "nodegroups": {},
        "nodes": {},
        "request": allocate("new", "plain"),
    }
)


def saved(oracle: Oracle, *options: str) -> str:
    """The cluster that these options describe, as Debian's hail saves it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(oracle.hail), *options, "--no-capacity-checks", "-S", f"{directory}/saved", "-"]
        result = subprocess.run(
            command,
            input=REQUEST,
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            timeout=60,
        )
        output = Path(directory, "saved.pre-ialloc")
        assert output.exists(), result.stderr
        return output.read_text("utf-8")


def saved_file(oracle: Oracle, content: str) -> str:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        return saved(oracle, "-t", file.name)


@pytest.mark.parametrize("name", [path.name for path in sorted(DATA.glob("*.data"))] or [None])
def test_files_that_ship_with_ganeti(oracle: Oracle, name: str | None) -> None:
    if name is None:
        pytest.skip("no data files of upstream's tests: 'make conformance' fetches them")
    content = (DATA / name).read_text("utf-8")
    if name == "invalid-node.data":
        with pytest.raises(DataError, match="Unknown node 'no-such-node' for instance new-0"):
            text.parse(content, name)
    else:
        assert text.dump(text.parse(content, name)) == saved(oracle, "-t", str(DATA / name))


@settings(max_examples=150)
@given(cluster=clusters())
def test_any_cluster(oracle: Oracle, cluster: Cluster) -> None:
    written = text.dump(cluster)
    assert written == saved_file(oracle, written)


@settings(max_examples=50)
@given(
    cluster=clusters(),
    groups=st.integers(4, 5),
    nodes=st.integers(9, 15),
    instances=st.integers(10, 13),
    policies=st.booleans(),
)
def test_older_files(
    oracle: Oracle, cluster: Cluster, groups: int, nodes: int, instances: int, policies: bool
) -> None:
    columns = [groups, nodes, instances, 1, 6]
    section, older = 0, ""
    for line in text.dump(cluster).splitlines():
        section += not line
        if section < 4 or policies:
            older += "|".join(line.split("|")[: columns[section]]) + "\n"
    assert text.dump(text.parse(older, "older")) == saved_file(oracle, older)


number = st.one_of(
    st.integers(0, 10**12).map(str),
    st.floats(0, 10**12, allow_subnormal=False).map(repr),
    st.sampled_from([" 1", "\t1.5", "007", "1E3", "25e-1", "0.5", "1.5", "2.5", "-0.0", "1e12"]),
)


@settings(max_examples=100)
@given(total=number, speed=number, ratio=number)
def test_notations_of_numbers(oracle: Oracle, total: str, speed: str, ratio: str) -> None:
    content = (
        "group|uuid|preferred||\n\n"
        f"node|{total}|0|0|{total}|0|{total}|N|uuid|1||N|0|1|{speed}\n\n\n\n"
        f"|1,1,1,1,1,1||plain|{ratio}|{ratio}\n"
    )
    assert text.dump(text.parse(content, "x.data")) == saved_file(oracle, content)


sizes = st.builds(
    "{}{}".format, st.integers(0, 5000), st.sampled_from(["", "m", "g", "M", "G", "GiB", " gb"])
)
specs = st.builds(
    ",".join,
    st.tuples(
        st.sampled_from(["p", "a", "u", "preferred", "last_resort"]),
        st.integers(0, 3).map(str),
        sizes,
        sizes,
        st.integers(0, 64).map(str),
        st.integers(0, 5).map(str),
        st.sampled_from(["True", "False"]),
    ),
)


@settings(max_examples=50)
@given(options=st.lists(specs, min_size=1, max_size=3))
def test_simulated_clusters(oracle: Oracle, options: list[str]) -> None:
    given = [f"--simulate={spec}" for spec in options]
    assert text.dump(simu.parse(options[::-1])) == saved(oracle, *given)
