"""Command lines are understood as Debian's tools understand them."""

import re
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ganeti_htools.commandline.programs import HAIL, PROGRAMS
from ganeti_htools.commandline.reading import Reply, read
from tests.oracle.programs import theirs
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
    said, ours = result.stderr.splitlines(), read(HAIL, argv)
    if not isinstance(ours, Reply):
        assert not said[0].startswith(("Command line error", "Error while parsing command line arguments"))
        assert result.returncode == 1  # there is no request
        return
    assert result.returncode == ours.status
    mine = ours.text.splitlines()
    if ours.status == 1:
        assert mine[0] == said[0]
    else:
        assert errors(mine) == errors(said)


def errors(lines: list[str]) -> set[str]:
    """What is wrong, without the usage and the help texts, which are worded otherwise."""
    told = lines[: lines.index("") if "" in lines else -1]
    told[0] = told[0].removeprefix("Command line error: ")
    return {line for line in told if not line.startswith(" ")}


TOOLS = sorted(PROGRAMS.keys() - {"hmaintain", "hregroup"})


@pytest.mark.parametrize("tool", TOOLS)
def test_options_are_theirs_and_completed_so_except_those_added(oracle: Oracle, tool: str) -> None:
    ours = read(PROGRAMS[tool]._replace(added=()), ["--help-completion"])
    assert isinstance(ours, Reply)
    assert theirs(oracle, tool, ["--help-completion"]).out == ours.text


@pytest.mark.parametrize("tool", TOOLS)
def test_every_prefix_of_their_options_is_as_ambiguous_as_theirs(oracle: Oracle, tool: str) -> None:
    options = PROGRAMS[tool]._replace(added=()).all_options
    prefixes = {o.long[:end] for o in options for end in range(1, len(o.long) + 1)}
    argv = ["--foo", *(f"--{prefix}=x" for prefix in sorted(prefixes))]
    ours = read(PROGRAMS[tool], argv)
    assert isinstance(ours, Reply)
    assert candidates(ours.text) == candidates(theirs(oracle, tool, argv).err)


def candidates(text: str) -> list[str]:
    """The lines about errors. Of an option that may be meant the name only."""
    lines = [line for line in text.partition("\n\n")[0].splitlines() if "--help lists" not in line]
    found = (re.match(r"(\S.*)| +(?:-\w.*? +)?(--[a-z-]+)", line) for line in lines)
    return [one[1] or one[2] for one in found if one]
