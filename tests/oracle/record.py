"""Record what htools of Ganeti 3.1.1 print about clusters whose nodes are close to failing N+1.

Debian 13 has a candidate of 3.1.0, which has the rules of 3.0. So upstream's programs are built once, by
hand, from the tag v3.1.1 with Debian 13's compiler (``apt-get build-dep ganeti``, ``./autogen.sh``,
``./configure``, ``make exe/htools``), and linked in a folder by the names of the tools:

    python -m tests.oracle.record FOLDER

Each line of the records has a cluster in the text format, and for each tool its options and what it printed.
"""

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from tests.oracle.hail import REQUEST
from tests.support.clusters import Shape
from tests.support.rows import generated

RECORDS = Path(__file__).with_name("ganeti-3.1.1.jsonl.gz")
CLUSTERS = 200
COMMANDS: tuple[tuple[str, Sequence[str]], ...] = (
    ("hail", ["--no-capacity-checks"]),
    ("hbal", ["-l", "3", "-C"]),
    ("hcheck", ["--machine-readable"]),
    ("hinfo", ["-v", "-v", "-p"]),
    ("hroller", ["-f"]),
    ("hspace", ["--machine-readable", "-l", "2", "--disk-template=plain"]),
    ("hsqueeze", ["--minimal-resources=0", "--target-resources=0"]),
)


def tight(seed: int) -> Cluster:
    """A small cluster whose nodes have about as much memory free as they keep for their secondaries.

    On some nodes memory is missing, so that more of it is free by record than Ganeti reports.
    """
    rng = random.Random(seed)
    nodes, instances = rng.randint(2, 4), rng.randint(2, 7)
    made = generated(seed, Shape(nodes, instances, templates={"drbd": 4, "ext": 1}, fill=0.3))
    columns = derive(made).columns
    changed = []
    for row, node in enumerate(made.nodes):
        free = int(columns.r_mem[row]) + rng.choice((-64, -1, 0, 0, 1, 64))
        missing = rng.choice((0, 0, 0, 1, 600))
        total = node.n_mem + int(columns.i_mem[row]) + free + missing
        wanted = rng.random() < 0.8 and free >= 0 and not node.offline
        changed.append(replace(node, t_mem=float(total), f_mem=free) if wanted else node)
    return replace(made, nodes=tuple(changed))


def run(programs: Path, directory: Path, tool: str, options: Sequence[str]) -> str:
    """Run a tool on the files of a directory; return what it prints."""
    request = [directory / "request"] if tool == "hail" else []
    command: list[str | Path] = [programs / tool, "-t", directory / "cluster.data", *options, *request]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def records(programs: Path) -> Iterator[dict[str, Any]]:
    """Run all commands on all clusters; yield a record for each cluster."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "request").write_text(REQUEST, "utf-8")
        for seed in range(CLUSTERS):
            data = text.dump(tight(seed))
            (directory / "cluster.data").write_text(data, "utf-8")
            answers = [(*command, run(programs, directory, *command)) for command in COMMANDS]
            yield {"cluster": data, "answers": answers}


if __name__ == "__main__":
    content = "".join(json.dumps(record) + "\n" for record in records(Path(sys.argv[1])))
    RECORDS.write_bytes(gzip.compress(content.encode(), mtime=0))
