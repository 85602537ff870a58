from pathlib import Path

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli import clusters
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.model.errors import HtoolsError

FILE = """\
g|u|preferred||

node1|1000|0|1000|1000|1000|4|M|u

inst1|10|10|3|running|Y|node1||plain|

"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "cluster.data"
    path.write_text(FILE)
    return str(path)


def test_a_cluster_is_saved(tmp_path: Path) -> None:
    cluster = simu.parse(["p,2,1,1,1"])
    message = clusters.save(str(tmp_path / "out"), "pre-ialloc", "before iallocator run", cluster)
    path = tmp_path / "out.pre-ialloc"
    assert message == f"The cluster state before iallocator run has been written to file '{path}'"
    assert path.read_text() == text.dump(cluster)


def test_a_cluster_is_loaded_with_its_load(data: str, tmp_path: Path) -> None:
    assert clusters.load(CommandLine(text_data=data)) == text.parse(FILE, data)
    (tmp_path / "load").write_text("inst1 7 1 1 1\n")
    loaded = clusters.load(CommandLine(text_data=data, dynu_file=str(tmp_path / "load")))
    assert loaded.instances[0].load.cpu == 7.0


def test_a_cluster_that_cannot_be_loaded() -> None:
    with pytest.raises(HtoolsError, match=r"^failed to load data, aborting: No backend selected! Exiting.$"):
        clusters.load(CommandLine())


def test_what_monitoring_daemons_do_not_report_is_told(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reports").write_text("[]")
    line = CommandLine(text_data=data, mond=True, mond_data=str(tmp_path / "reports"))
    assert clusters.load(line) == text.parse(FILE, data)
    warning = "Didn't receive an answer by all MonDs, cpu-avg-load's data will be ignored.\n"
    assert capsys.readouterr() == ("", warning)


@pytest.mark.parametrize(
    "given",
    [{"luxi": "", "master": "host"}, {"luxi": "a", "text_data": "b"}, {"master": "a", "text_data": "b"}],
)
def test_only_one_source_is_given(given: dict[str, str]) -> None:
    with pytest.raises(HtoolsError, match=r"^Only one of the rapi, luxi, and data files options should be"):
        clusters.load(CommandLine()._replace(**given))  # type: ignore[arg-type]
