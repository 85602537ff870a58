"""``hcheck -L`` for a user who may use luxid's socket, and nothing else: Ganeti's jobs run as gnt-masterd."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.cli import hcheck
from tests.oracle.programs import Result, ours
from tests.support import preloaded
from tests.support.clusters import Shape
from tests.support.rows import with_master
from tests.support.simulators import Simulator, simulator

AS_NOBODY = """
import os, resource, sys
from ganeti_htools.cli import hcheck
os.chdir("/")
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.exit(hcheck.main(sys.argv[1:]))
"""
OPTIONS = "--machine-readable", "--ganeti-version=3.0"


@pytest.fixture(scope="module")
def ganeti() -> Iterator[Simulator]:
    """A master whose socket all users can reach; a node is offline."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o711)
        with simulator(directory, with_master(4, Shape(nodes=6, groups=2, offline=1))) as running:
            yield running


def as_nobody(directory: Path, *options: str) -> Result:
    """Run hcheck without rights, home, environment and files that it may write."""
    script = directory / "script"
    script.write_text(AS_NOBODY)
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    process = preloaded.start(str(script), options, environment={}, output=to_out, error=to_err)
    os.close(to_out)
    os.close(to_err)
    status = process.wait(60)
    with open(out) as output, open(err) as error:
        return Result(status, output.read(), error.read())


@pytest.mark.parametrize("option", [(), ("--no-simulation",), ("-v", "-v")])
def test_prints_what_it_prints_for_root(ganeti: Simulator, tmp_path: Path, option: tuple[str, ...]) -> None:
    ganeti.socket.chmod(0o666)
    arguments = f"-L{ganeti.socket}", *OPTIONS, *option
    found = as_nobody(tmp_path, *arguments)
    assert found == ours(hcheck.main, arguments)
    assert found.out.endswith("\nHCHECK_OK=1\n")


def test_socket_of_others_is_one_line(ganeti: Simulator, tmp_path: Path) -> None:
    ganeti.socket.chmod(0o600)
    found = as_nobody(tmp_path, f"-L{ganeti.socket}", *OPTIONS)
    assert (found.status, found.out) == (1, "")
    assert found.err.endswith(": Ganeti cannot be reached: Permission denied\n")
    assert found.err.count("\n") == 1
