"""Clusters read over the remote API are scanned as Debian's hscan does."""

import subprocess
from pathlib import Path

import pytest

from ganeti_htools.cli import hscan
from tests.support.clusters import TIGHT, Shape, cluster
from tests.support.oracle import Oracle
from tests.support.rapi_documents import write

pytestmark = pytest.mark.oracle

EVERYTHING = ("exclusion", "location", "migration", "desired")
SHAPES = [
    Shape(nodes=3, instances=10, templates={"drbd": 1}, down=0),
    Shape(nodes=8, instances=40, groups=2, offline=1, drained=1, down=0.3, tags=EVERYTHING, policies=True),
    Shape(nodes=6, instances=30, fill=TIGHT, exclusive_storage=True),
    Shape(nodes=6, instances=30, fill=TIGHT, hypervisor="kvm", forthcoming=0.2),
    Shape(nodes=2, instances=0),
]


@pytest.mark.parametrize(
    "options", [(), ("-p",), ("--no-headers", "--static-kvm-node-memory=0", "-pname,fmem")]
)
def test_figures_and_files(
    oracle: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    names = [write(tmp_path / f"rapi{seed}", cluster(seed, shape)) for seed, shape in enumerate(SHAPES)]
    argv = [*options, *names[:2], f"file://{tmp_path}/none", *names[2:]]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for directory in (theirs, ours):
        directory.mkdir()
    told = subprocess.run(
        [oracle.hbal.with_name("hscan"), "-d", str(theirs), *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    monkeypatch.chdir(ours)
    status = hscan.main(argv)
    assert status == told.returncode == 2
    mine = capsys.readouterr().out
    # Why a cluster cannot be read is told in other words.
    assert without_reasons(mine) == without_reasons(told.stdout)
    assert saved(ours) == saved(theirs)
    assert len(saved(ours)) == len(SHAPES)


def without_reasons(text: str) -> list[str]:
    return [line for line in text.splitlines() if "/none/groups.json: " not in line]


def saved(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in directory.iterdir()}
