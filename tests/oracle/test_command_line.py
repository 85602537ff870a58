"""Command lines are understood as Debian's hail understands them."""

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import Reply, read
from tests.support.oracle import Oracle

pytestmark = pytest.mark.oracle

# Nothing that only we accept, and nothing that makes hail do something.
WORDS = [
    *("-t", "-tx", "--text-data", "--text-data=x", "--text=x", "-v", "-vv", "-vt", "-v-", "--verbose=1"),
    *("-p", "-pname", "--print-nodes=+a", "--simu", "--simulate=x", "--sim=", "--save", "-S", "-Sx"),
    *("--mond", "--mond=yes", "--mond=no", "--mond=x", "--mo", "--mond-x", "--no-capacity-checks=1"),
    *("--ignore", "--ignore-s", "--static-kvm-node-memory=1", "--static=x", "--restrict=a,b"),
    *("--foo", "--foo=1", "-z", "-vz", "-=", "--=", "-", "--", "x", ""),
]


@settings(max_examples=120)
@given(argv=st.lists(st.sampled_from(WORDS), max_size=5))
@example(argv=["--", "-z"])
def test_any_command_line(oracle: Oracle, argv: list[str]) -> None:
    command = [str(oracle.hail), *argv]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    theirs, ours = result.stderr.splitlines(), read(HAIL, argv)
    if not isinstance(ours, Reply):
        assert not theirs[0].startswith(("Command line error", "Error while parsing command line arguments"))
        assert result.returncode == 1  # there is no request
        return
    assert result.returncode == ours.status
    mine = ours.text.splitlines()
    if ours.status == 1:
        assert mine[0] == theirs[0]
    else:
        assert errors(mine) == errors(theirs)


def errors(lines: list[str]) -> set[str]:
    """What is wrong, without the usage and the help texts, which are worded otherwise."""
    told = lines[: lines.index("")]
    told[0] = told[0].removeprefix("Command line error: ")
    return {line for line in told if not line.startswith(" ")}


def test_completion_tells_of_all_their_options(oracle: Oracle) -> None:
    result = subprocess.run([oracle.hail, "--help-completion"], capture_output=True, text=True, check=True)
    ours = read(HAIL, ["--help-completion"])
    assert isinstance(ours, Reply)
    assert set(result.stdout.splitlines()) <= set(ours.text.splitlines())
