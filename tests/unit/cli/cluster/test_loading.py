from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli.cluster import loading
from ganeti_htools.commandline.line import CommandLine
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


def test_a_cluster_is_loaded_with_its_load(data: str, tmp_path: Path) -> None:
    assert loading.load(CommandLine(text_data=data)) == text.parse(FILE, data)
    (tmp_path / "load").write_text("inst1 7 1 1 1\n")
    loaded = loading.load(CommandLine(text_data=data, dynu_file=str(tmp_path / "load")))
    assert loaded.instances[0].load.cpu == 7.0


def test_a_cluster_that_cannot_be_loaded() -> None:
    with pytest.raises(HtoolsError, match=r"^failed to load data, aborting: No backend selected! Exiting.$"):
        loading.load(CommandLine())


def test_what_monitoring_daemons_do_not_report_is_told(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reports").write_text("[]")
    line = CommandLine(text_data=data, mond=True, mond_data=str(tmp_path / "reports"))
    assert loading.load(line) == text.parse(FILE, data)
    warning = "Didn't receive an answer by all MonDs, cpu-avg-load's data will be ignored.\n"
    assert capsys.readouterr() == ("", warning)
