import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli import hbal, hcheck, hinfo, hmaintain, hregroup, hroller, hspace, hsqueeze
from ganeti_htools.cli.cluster import load, make_state, save
from ganeti_htools.cli.runs.by_daemon import ByDaemon
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.tools import TOOLS
from ganeti_htools.sources.installed import with_version
from ganeti_htools.sources.source import Source, read
from tests.support.schemas import complaint
from tests.unit.sources.test_source import NODES, told_by_daemon

FILE = """\
g|u|preferred||

node1|1000|0|1000|1000|1000|4|M|u

inst1|10|10|3|running|Y|node1||plain|

"""

CLUSTER = simu.parse(["p,2,1,1,1"])


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "cluster.data"
    path.write_text(FILE)
    return str(path)


def test_cluster_has_its_load(data: str, tmp_path: Path) -> None:
    assert load(CommandLine(text_data=data)) == with_version(text.parse(FILE, data), None)
    (tmp_path / "load").write_text("inst1 7 1 1 1\n")
    loaded = load(CommandLine(text_data=data, dynu_file=str(tmp_path / "load")))
    assert loaded.instances[0].load.cpu == 7.0


def test_error_without_source() -> None:
    with pytest.raises(HtoolsError, match=r"^failed to load data, aborting: No backend selected! Exiting.$"):
        load(CommandLine())


def test_warns_of_missing_reports(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reports").write_text("[]")
    line = CommandLine(text_data=data, mond=True, mond_data=str(tmp_path / "reports"))
    assert load(line) == with_version(text.parse(FILE, data), None)
    warning = "Didn't receive an answer by all MonDs, cpu-avg-load's data will be ignored.\n"
    assert capsys.readouterr() == ("", warning)


def test_state_follows_options(capsys: pytest.CaptureFixture[str]) -> None:
    state = make_state(text.parse(FILE, ""), CommandLine(offline=("node1",), verbose=0))
    assert state.columns.offline.tolist() == [True]
    assert capsys.readouterr() == ("", "")


def test_warns_of_inconsistent_figures(capsys: pytest.CaptureFixture[str]) -> None:
    make_state(text.parse(FILE.replace("node1|1000", "node1|9000"), ""), CommandLine(verbose=1))
    out, err = capsys.readouterr()
    assert out == ""
    assert "node node1 is missing 7990 MB ram" in err


def test_unknown_node_is_refused() -> None:
    with pytest.raises(HtoolsError, match="node2"):
        make_state(text.parse(FILE, ""), CommandLine(offline=("node2",)))


def test_cluster_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(save=str(tmp_path / "out"))
    save(line, "pre-ialloc", "before iallocator run", lambda: CLUSTER)
    path = tmp_path / "out.pre-ialloc"
    said = f"The cluster state before iallocator run has been written to file '{path}'\n"
    assert capsys.readouterr() == ("", said)
    assert path.read_text() == text.dump(CLUSTER)


def test_nothing_is_saved_without_option(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> Cluster:
        pytest.fail("not needed")

    save(CommandLine(), "original", "before balancing", never)
    assert capsys.readouterr() == ("", "")


def test_error_names_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HtoolsError, match=r"out\.original"):
        save(
            CommandLine(save=str(tmp_path / "missing" / "out")),
            "original",
            "before balancing",
            lambda: CLUSTER,
        )


@pytest.mark.parametrize("tool", [hbal, hcheck, hinfo, hmaintain, hregroup, hroller, hspace, hsqueeze])
def test_names_nodes_whose_figures_are_older_than_their_instances(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error and in ``--json``; such figures are no base for jobs."""
    told_by_daemon(monkeypatch, updating=NODES[:1], updating_error="no answer within 10 s")
    older = f"figures of {NODES[0]} are older than their instances: no answer within 10 s"
    name = tool.__name__.rpartition(".")[2]
    action = {"hmaintain": ["status"], "hregroup": ["groups"]}.get(name, [])

    def plan(_daemon: object, tool: str, options: Any, _generations: object) -> dict[str, Any]:
        cluster = read(Source(daemon="/socket"), lambda _text: None).cluster
        return {"found": TOOLS[tool].propose(cluster, options, lambda _text: None).found}

    monkeypatch.setattr(ByDaemon, "plan", plan)
    tool.main([*action, "-D/socket", "--json"])
    printed = capsys.readouterr()
    assert (
        f"Warning: htoolsd: {older}; free memory and disk are computed from what has moved\n" in printed.err
    )
    document = json.loads(printed.out)
    assert document["updating"] == NODES[:1]
    assert complaint(name, document) is None
    if name in ("hbal", "hsqueeze"):
        assert tool.main(["-D/socket", "-X"]) == 1
        assert capsys.readouterr().err.endswith(f"{older}; nothing is carried out\n")
