from pathlib import Path

import orjson
import pytest

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster, Load
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sources.dynamic_load import DynamicLoad, with_dynamic_load

FILE = """\
g|u|preferred||

node1|1000|0|1000|1000|1000|4|M|u
node2|1000|0|1000|1000|1000|4|N|u

inst1|10|10|3|running|Y|node1|node2|drbd|
inst2|10|10|1|running|Y|node2||plain|

"""
CLUSTER = text.parse(FILE, "FILE")


def cpu(cluster: Cluster) -> list[float]:
    return [instance.load.cpu for instance in cluster.instances]


def write(path: Path, content: object) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else orjson.dumps(content))
    return str(path)


def report(node: str, total: float) -> object:
    return {"node": node, "reports": [{"name": "cpu-avg-load", "data": {"cpu_total": total}}]}


def quiet(wanted: DynamicLoad) -> Cluster:
    """The cluster with that load, which comes without a warning."""
    warnings: list[str] = []
    cluster = with_dynamic_load(CLUSTER, wanted, warnings.append)
    assert warnings == []
    return cluster


def test_without_options_there_is_the_usual_load() -> None:
    assert quiet(DynamicLoad()) == CLUSTER


def test_load_comes_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "u", "inst2 7 1 1 1\nother 1 1 1 1\n")
    assert cpu(quiet(DynamicLoad(utilisation=path))) == [1.0, 7.0]


def test_load_comes_from_monitoring_daemons(tmp_path: Path) -> None:
    path = write(tmp_path / "m", [report("node1", 2.0), report("node2", 3.0)])
    cluster = quiet(DynamicLoad(mond=True, mond_data=path))
    assert [node.cpu_load for node in cluster.nodes] == [2.0, 3.0]
    assert cpu(cluster) == [1.5, 1.5]
    assert cpu(quiet(DynamicLoad(mond_data=path))) == [1.0, 1.0]


@pytest.mark.parametrize("mond", [False, True])
def test_load_is_ignored_on_request(tmp_path: Path, mond: bool) -> None:
    utilisation = write(tmp_path / "u", "inst2 7 1 1 1\n")
    reports = write(tmp_path / "m", [report("node1", 2.0), report("node2", 3.0)])
    cluster = quiet(DynamicLoad(utilisation=utilisation, mond=mond, mond_data=reports, ignore=True))
    assert {instance.load for instance in cluster.instances} == {Load(0, 0, 0, 0)}
    assert {node.cpu_load for node in cluster.nodes} == {None}


def test_missing_reports_are_warned_of_or_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "m", [report("node1", 2.0)])
    warnings: list[str] = []
    assert with_dynamic_load(CLUSTER, DynamicLoad(mond=True, mond_data=path), warnings.append) == CLUSTER
    assert warnings == ["Didn't receive an answer by all MonDs, cpu-avg-load's data will be ignored."]
    required = DynamicLoad(mond=True, mond_data=path, all_required=True)
    with pytest.raises(HtoolsError, match=r"^Not all required data available$"):
        with_dynamic_load(CLUSTER, required, warnings.append)
    assert warnings == 2 * warnings[:1]


def test_daemons_that_cannot_be_asked_are_warned_of() -> None:
    cluster = text.parse(FILE.replace("node1", "no such host"), "x")
    warnings: list[str] = []
    assert with_dynamic_load(cluster, DynamicLoad(mond=True, xen=True), warnings.append) == cluster
    assert "Failed to contact node's no such host MonD for DC xen-cpu-avg-load" in warnings
    assert warnings[-1] == "Didn't receive an answer by all MonDs, xen-cpu-avg-load's data will be ignored."


def test_a_file_that_is_wrong_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "wrong", "a\n")
    with pytest.raises(HtoolsError, match=rf"^can't parse utilisation data: {path}: line 1: Cannot"):
        quiet(DynamicLoad(utilisation=path))
    with pytest.raises(HtoolsError, match=rf"^can't parse MonD data: {path}: Invalid JSON: "):
        quiet(DynamicLoad(mond=True, mond_data=path))
