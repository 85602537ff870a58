"""Running Debian's tools, and ours in this process, on the same clusters in the text format."""

import contextlib
import io
import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from tests.support.oracle import Oracle


@dataclass(frozen=True, slots=True)
class Result:
    """What a program did."""

    status: int
    out: str
    err: str


def theirs(oracle: Oracle, tool: str, arguments: Sequence[str]) -> Result:
    """Run Debian's."""
    command = [str(oracle.hail if tool == "hail" else oracle.hbal.with_name(tool)), *arguments]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", env=environment)
    return Result(done.returncode, done.stdout, done.stderr)


def ours(main: Callable[[Sequence[str]], int], arguments: Sequence[str], version: str = "3.0") -> Result:
    """Run ours, by the rules of a version of Ganeti.

    The line of ``-v`` that names them is left out, and hroller's warning of instances that cannot leave.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([f"--ganeti-version={version}", *arguments])
    rules = f"Rules of Ganeti {version[:3]}\n" if "-v" in arguments else ""
    warnings = re.sub(r"(?m)^Warning: .* cannot leave .* no instances\n", "", err.getvalue())
    return Result(status, out.getvalue().removesuffix(rules), warnings)


def some_offline(rng: random.Random, cluster: Cluster) -> list[str]:
    """Options that take no node, or one, for offline."""
    return ["-O", rng.choice(cluster.nodes).name] if rng.random() < 0.3 else []


def write(tmp_path: Path, cluster: Cluster) -> str:
    """The cluster in a file."""
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(cluster), "utf-8")
    return str(path)


_OF_DEBIAN = re.compile(
    r"gnt-instance |gnt-node power |gnt-node add-tags \S+ htools:standby:auto$|echo Nothing"
)


def squeeze_commands(out: str) -> tuple[str, list[list[str]]]:
    """Split a report of hsqueeze: its text, and those commands of ``-C`` that Debian's prints too.

    Names of nodes are without their domain.
    """
    text, _, commands = out.partition("\nCommands to run:\n")
    lines = filter(_OF_DEBIAN.match, map(str.strip, commands.splitlines()))
    return text, [[word.partition(".")[0] for word in line.split()] for line in lines]
