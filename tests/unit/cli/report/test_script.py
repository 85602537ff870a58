"""Shell commands for reading and for the shell."""

import subprocess
from pathlib import Path

import pytest

from ganeti_htools.cli import hbal, hsqueeze
from ganeti_htools.cli.report.script import listed, script, shown

COMMANDS = "\necho jobset 1, 1 jobs\n  echo job 1/1\n  check\n  gnt-instance migrate -f i0\n"


def test_commands_for_reading_and_for_the_shell() -> None:
    assert listed([[["gnt-instance migrate -f i0"]]]) == COMMANDS
    assert shown(COMMANDS) == (
        "  \n  echo jobset 1, 1 jobs\n    echo job 1/1\n    gnt-instance migrate -f i0\n"
    )
    assert script(COMMANDS).startswith("#!/bin/sh\n")
    assert script(COMMANDS).endswith(COMMANDS)


NAMES = ["a;touch${IFS}x;b", "$(touch x)", "`touch x`", "it's", "two words", '"x"', "a\\b", "*"]
GNT = """#!/bin/sh
printf '%s' "${0##*/}" >>"$LOG"
for word; do printf ' <%s>' "$word" >>"$LOG"; done
echo >>"$LOG"
"""


def uneven(instance: str, node: str = "n2") -> str:
    """A node with four instances, and two empty ones of which one has a name."""
    rows = "".join(f"{name}|2000|10|1|running|Y|n1||ext|\n" for name in (instance, "i1", "i2", "i3"))
    nodes = f"n1|16000|0|8000|1000|1000|8|M|u\n{node}|16000|0|16000|1000|1000|8|N|u\n"
    return f"g|u|preferred||\n\n{nodes}\n{rows}\n\n"


def commands(tmp_path: Path, script_path: Path) -> list[str]:
    """Run a script; return what it calls of Ganeti, each word in angle brackets."""
    log, bin_path = tmp_path / "log", tmp_path / "bin"
    bin_path.mkdir(exist_ok=True)
    log.write_text("")
    for name in ("gnt-instance", "gnt-node"):
        (bin_path / name).write_text(GNT)
        (bin_path / name).chmod(0o755)
    environment = {"PATH": f"{bin_path}:/usr/bin:/bin", "LOG": str(log)}
    subprocess.run(
        ["/bin/sh", script_path], check=True, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL
    )
    return log.read_text().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_script_passes_names_of_instances_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "data").write_text(uneven(name).replace("i3|2000", "i3|20"))
    path = tmp_path / "run.sh"
    assert hbal.main(["-t", str(tmp_path / "data"), f"-C{path}", "--select-instances", name]) == 0
    assert commands(tmp_path, path) == [f"gnt-instance <migrate> <-f> <-n> <n2> <{name}>"]
    assert not (tmp_path / "x").exists()
    capsys.readouterr()


@pytest.mark.parametrize("name", NAMES)
def test_script_passes_names_of_nodes_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    empty = uneven("i0", name).replace("|16000|0|16000|1000|1000|8|N|u", "|9000|0|9000|1000|1000|8|N|u")
    (tmp_path / "data").write_text(empty)
    path = tmp_path / "run.sh"
    assert hsqueeze.main(["-t", str(tmp_path / "data"), f"-C{path}", "--target-resources=0"]) == 0
    called = commands(tmp_path, path)
    assert called[1:3] == [
        f"gnt-node <modify> <--drained> <yes> <{name}>",
        f"gnt-node <add-tags> <{name}> <htools:standby:auto>",
    ]
    asleep = empty.replace("|8|N|u", "|8|Y|u|1|htools:standby:a")
    (tmp_path / "data").write_text(asleep)
    assert hsqueeze.main(["-t", str(tmp_path / "data"), f"-C{path}", "--minimal-resources=65"]) == 0
    assert commands(tmp_path, path)[1:3] == [
        f"gnt-node <power> <-f> <on> <{name}>",
        f"gnt-node <modify> <--offline> <no> <{name}>",
    ]
    assert not (tmp_path / "x").exists()
    capsys.readouterr()


def test_script_refuses_names_that_begin_with_a_dash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    for described, kind, name in (
        (uneven("-rf"), "instance", "-rf"),
        (uneven("i0", "--help"), "node", "--help"),
    ):
        path.write_text(described)
        assert hbal.main(["-t", str(path), "--select-instances=-rf" if kind == "instance" else "-l9"]) == 0
        assert hbal.main(["-t", str(path), "-C"]) == 1
        why = "begins with a dash; expected a name that commands do not take for an option"
        assert capsys.readouterr().err.endswith(f"Error: {kind} {name!r}: {why}\n")
