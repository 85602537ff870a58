import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli.cluster.viewing import seen
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.errors import HtoolsError

FILE = """\
g|u|preferred||

node1|1000|0|1000|1000|1000|4|M|u

inst1|10|10|3|running|Y|node1||plain|

"""


def test_a_cluster_is_seen_as_the_options_say(capsys: pytest.CaptureFixture[str]) -> None:
    state = seen(text.parse(FILE, ""), CommandLine(offline=("node1",), verbose=0))
    assert state.columns.offline.tolist() == [True]
    assert capsys.readouterr() == ("", "")


def test_figures_that_do_not_add_up_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen(text.parse(FILE.replace("node1|1000", "node1|9000"), ""), CommandLine(verbose=1))
    out, err = capsys.readouterr()
    assert out == ""
    assert "node node1 is missing 7990 MB ram" in err


def test_an_unknown_name() -> None:
    with pytest.raises(HtoolsError, match="node2"):
        seen(text.parse(FILE, ""), CommandLine(offline=("node2",)))
