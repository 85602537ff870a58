import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.client import calls
from ganeti_htools.luxi import relayed
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sources.installed import with_version
from ganeti_htools.sources.source import Source, describe_silent, read
from tests.support import messages, rapi_documents, text_format
from tests.support.clusters import Shape
from tests.support.clusters import cluster as generated
from tests.support.luxi_answers import answers, luxid

DATA = generated(1, Shape(nodes=3, instances=4))
NODES = list(DATA["nodes"])
SIMULATED = with_version(simu.parse(["p,2,1,1,1"]), None)


def quiet(source: Source) -> Cluster:
    """The cluster of a source, of which there is nothing to be warned."""
    warnings: list[str] = []
    reading = read(source, warnings.append)
    assert warnings == []
    assert not any(node.silent for node in reading.cluster.nodes)
    return reading.cluster


def names(cluster: Cluster) -> list[str]:
    return [node.name for node in cluster.nodes]


def test_reads_a_simulation() -> None:
    assert quiet(Source(simulate=("p,2,1,1,1",))) == SIMULATED


def test_a_file_in_the_text_format(tmp_path: Path) -> None:
    path = tmp_path / "cluster.data"
    path.write_text(text_format.text(DATA))
    assert quiet(Source(text=str(path))) == with_version(text.parse(text_format.text(DATA), str(path)), None)


def test_an_iallocator_request(tmp_path: Path) -> None:
    path = tmp_path / "request"
    request = messages.relocate(DATA, next(iter(DATA["instances"])))
    path.write_text(messages.encode(messages.message(DATA, request)))
    assert names(quiet(Source(request=str(path)))) == NODES


def test_saved_documents_of_the_remote_api(tmp_path: Path) -> None:
    directory = tmp_path / "rapi"
    assert names(quiet(Source(rapi=rapi_documents.write(directory, DATA)))) == NODES


def test_warns_once_that_the_remote_api_lacks_storage_units(tmp_path: Path) -> None:
    directory = tmp_path / "rapi"
    source = Source(rapi=rapi_documents.write(directory, DATA))
    info = json.loads((directory / "info.json").read_text())
    for templates, expected in ((["plain", "drbd"], 0), (["plain", "file"], 1), (["drbd", "rbd", "ext"], 1)):
        (directory / "info.json").write_text(json.dumps(info | {"enabled_disk_templates": templates}))
        told = list[str]()
        read(source, told.append)
        assert len(told) == expected
        assert all("the remote API lacks storage units" in line for line in told)


def test_reads_from_luxid(tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    with luxid(socket, answers(DATA)):
        assert names(quiet(Source(luxi=str(socket)))) == NODES


def test_of_several_sources_one_is_read(tmp_path: Path) -> None:
    assert quiet(Source(simulate=("p,2,1,1,1",), text="/none")) == with_version(
        simu.parse(["p,2,1,1,1"]), None
    )
    with pytest.raises(HtoolsError, match=r"^/none: Ganeti cannot be reached: No such file or directory$"):
        quiet(Source(luxi="/none", simulate=("p,2,1,1,1",)))


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (Source(), "No backend selected! Exiting."),
        (Source(daemon="/none"), "/none: No such file or directory; is htoolsd running[?]"),
        (Source(rapi="file:///none"), "/none/groups.json: cannot be read: No such file or directory"),
        (Source(simulate=("x",)), "Invalid cluster specification 'x': .*"),
        (Source(text="/none"), "/none: cannot be read: No such file or directory"),
        (Source(text="/dev/null"), "/dev/null: Invalid format of the input file: 0 sections .*"),
        (Source(request="/dev/null"), ".*"),
    ],
)
def test_unreadable_sources_are_errors(source: Source, error: str) -> None:
    with pytest.raises(HtoolsError, match=f"^{error}$"):
        quiet(source)


def told_by_daemon(monkeypatch: pytest.MonkeyPatch, **state: Any) -> None:
    """Have htoolsd tell of the cluster, and of itself what is given."""
    given = answers(DATA)
    tables = {
        name: {"fields": list(fields), "data": given[name.removesuffix("s")]["data"]}
        for name, fields in relayed.FIELDS.items()
    }
    usual = {"ages": {"live": 7.0}, "late": False, "error": None, "silent": [], "generations": {"nodes": 3}}
    document = {**tables, "info": given["QueryClusterInfo"], **usual, **state}

    def ask(path: str, method: str, args: object) -> object:
        assert (path, method, args) == ("/socket", "cluster", {"fresh": True})
        return document

    monkeypatch.setattr(calls, "ask", ask)


def test_reads_from_htoolsd(monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_daemon(monkeypatch)
    assert names(quiet(Source(daemon="/socket"))) == NODES
    warnings: list[str] = []
    assert read(Source(daemon="/socket"), warnings.append, verbose=True).generations == {"nodes": 3}
    assert warnings == ["htoolsd: live data 7 s old"]


def test_what_htoolsd_does_not_know_well_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_daemon(monkeypatch, late=True, error="away", silent=NODES[:1], updating=NODES[1:2])
    warnings: list[str] = []
    reading = read(Source(daemon="/socket"), warnings.append)
    silent = [node.name for node in reading.cluster.nodes if node.silent]
    assert silent == NODES[:1]
    assert [node.updating for node in reading.cluster.nodes] == [False, True, False]
    assert warnings == [
        "Warning: htoolsd: live data 7 s old (away)",
        f"Warning: node {NODES[0]} does not report, and is taken for offline",
        f"Warning: htoolsd: {reading.updating}; free memory and disk are computed from what has moved",
    ]
    assert reading.updating == (
        f"figures of {NODES[1]} are older than their instances: instances have come or gone"
    )
    assert describe_silent(silent) == f"nodes that are in use do not report: {NODES[0]}"
