from pathlib import Path

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.sources import installed

LINES = 'VERSIONEDSHAREDIR = "/usr/share/ganeti/3.1"\n\nRELEASE_VERSION = "{}"\n\nVERSION_MAJOR = 3\n'
RELEASE = GanetiVersion(3, 1, 1)


@pytest.fixture
def constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "_constants.py"
    monkeypatch.setattr(installed, "CONSTANTS", path)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (LINES.format("3.1.1"), RELEASE),
        (LINES.format("3.1.0~rc2"), GanetiVersion(3, 1, 0, False)),
        (LINES.format("unknown"), None),
        ("", None),
    ],
)
def test_version_of_installed_ganeti(constants: Path, text: str, version: GanetiVersion | None) -> None:
    constants.write_text(text)
    assert installed.installed_version() == version


def test_no_version_without_ganeti(constants: Path) -> None:
    assert not constants.exists()
    assert installed.installed_version() is None


def test_own_version_of_a_cluster_comes_first_then_the_given_then_the_installed(constants: Path) -> None:
    constants.write_text(LINES.format("3.1.1"))
    given = GanetiVersion(3, 0, 1)
    own = Cluster(ganeti=GanetiVersion(3, 0, 2))
    assert installed.with_version(own, given) is own
    assert installed.with_version(Cluster(), given).ganeti == given
    assert installed.with_version(Cluster(), None).ganeti == RELEASE
