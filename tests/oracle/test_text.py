"""What we write is what Debian's tools write for the same file."""

import tempfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganeti_htools.backends import simu, text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError
from tests.oracle.hail import DATA, FILES, NO_FILES, saved
from tests.support.oracle import Oracle
from tests.support.strategies import clusters

pytestmark = pytest.mark.oracle


def saved_file(oracle: Oracle, content: str) -> str:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        return saved(oracle, "-t", file.name)


@pytest.mark.parametrize("name", FILES or [None])
def test_files_that_ship_with_ganeti(oracle: Oracle, name: str | None) -> None:
    if name is None:
        pytest.skip(NO_FILES)
    content = (DATA / name).read_text("utf-8")
    if name == "invalid-node.data":
        with pytest.raises(DataError, match="Unknown node 'no-such-node' for instance new-0"):
            text.parse(content, name)
    else:
        assert text.dump(text.parse(content, name)) == saved(oracle, "-t", str(DATA / name))


@settings(max_examples=60)
@given(cluster=clusters())
def test_any_cluster(oracle: Oracle, cluster: Cluster) -> None:
    written = text.dump(cluster)
    assert written == saved_file(oracle, written)


@settings(max_examples=25)
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
    st.integers(0, 2**16).map(lambda part: repr(2**39 + part / 2**13)),  # often in the middle of two decimals
    st.sampled_from([" 1", "\t1.5", "007", "1E3", "25e-1", "0.5", "1.5", "2.5", "-0.0", "1e12"]),
)


@settings(max_examples=50)
@given(total=number, speed=number, ratio=number)
@example(total="0", speed="1e-9", ratio="549755813888.0312")
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


@settings(max_examples=25)
@given(options=st.lists(specs, min_size=1, max_size=3))
def test_simulated_clusters(oracle: Oracle, options: list[str]) -> None:
    given = [f"--simulate={spec}" for spec in options]
    assert text.dump(simu.parse(options[::-1])) == saved(oracle, *given)
