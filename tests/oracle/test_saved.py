"""What is saved before anything is done is what Debian's tools save."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ganeti_htools.cli import hbal, hroller
from tests.oracle.programs import ours, theirs
from tests.support.clusters import Shape, cluster
from tests.support.oracle import Oracle
from tests.support.rapi_documents import write

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("hypervisor", ["kvm", "xen-pvm"])
@pytest.mark.parametrize(
    ("program", "run", "options"),
    [("hbal", hbal.main, ["-l1", "--exclusion-tags=service"]), ("hroller", hroller.main, ["-f"])],
)
def test_without_what_options_pretend(
    oracle: Oracle,
    tmp_path: Path,
    program: str,
    run: Callable[[Sequence[str]], int],
    options: Sequence[str],
    hypervisor: str,
) -> None:
    url = write(
        tmp_path, cluster(5, Shape(nodes=6, instances=14, hypervisor=hypervisor, tags=("exclusion",)))
    )
    argv = [*options, "-m", url, "-O", "node4.example.org", "-S"]
    assert theirs(oracle, program, [*argv, str(tmp_path / "theirs")]).status == 0
    assert ours(run, [*argv, str(tmp_path / "ours")]).status == 0
    expected = {path.suffix: path.read_text() for path in tmp_path.glob("theirs.*")}
    assert ".original" in expected
    assert {path.suffix: path.read_text() for path in tmp_path.glob("ours.*")} == expected
