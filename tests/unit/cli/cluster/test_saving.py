from pathlib import Path

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli.cluster.saving import save
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError

CLUSTER = simu.parse(["p,2,1,1,1"])


def test_a_cluster_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = CommandLine(save=str(tmp_path / "out"))
    save(line, "pre-ialloc", "before iallocator run", lambda: CLUSTER)
    path = tmp_path / "out.pre-ialloc"
    said = f"The cluster state before iallocator run has been written to file '{path}'\n"
    assert capsys.readouterr() == ("", said)
    assert path.read_text() == text.dump(CLUSTER)


def test_without_the_option_nothing_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> Cluster:
        pytest.fail("made in vain")

    save(CommandLine(), "original", "before balancing", never)
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HtoolsError, match=r"out\.original"):
        save(
            CommandLine(save=str(tmp_path / "missing" / "out")),
            "original",
            "before balancing",
            lambda: CLUSTER,
        )
