"""hregroup on clusters of many node groups, with nothing to compare with but itself on smaller ones.

A figure is the wall-clock time of a whole process, from its start to its exit, and its peak memory.
"""

import random
import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bench.timing import BIN, SEED, Limit, Run, at_most, duration, pace, progress, run
from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.storage import DRBD_META
from ganeti_htools.model.types import DiskTemplate

GIBIBYTE = 1024
MEMORY, DISK = 131_072, 4 << 20  # of a node, MiB


class Size(NamedTuple):
    """How large a cluster is: groups, nodes of each, instances; in so many groups a node is offline."""

    groups: int
    nodes: int
    instances: int
    broken: int = 0

    def __str__(self) -> str:
        return f"{self.groups} x {self.nodes} / {self.instances:,}"


@dataclass(frozen=True)
class Row:
    """One line of the table: what hregroup does, and how many seconds that may take."""

    action: str
    size: Size
    seconds: float
    options: tuple[str, ...] = ()
    note: str = ""
    loads: bool = False  # whether the groups are unevenly loaded
    growth: bool = False  # whether it is also done on smaller clusters
    runs: int = 3

    @property
    def work(self) -> str:
        """What is measured."""
        return f"hregroup {self.action} {self.size}{self.note}"


PLAIN = ("--allow-plain",)
FEW, MANY = Size(5, 20, 1000), Size(20, 50, 10_000)
ROWS = [
    Row("compress", FEW, 5, PLAIN, ", all groups tried"),
    Row("balance", FEW, 5, ("--max-moves=50",), ", 50 moves", loads=True),
]
FULL_ROWS = [
    Row("groups", MANY, 2, growth=True),
    Row("redistribute", MANY._replace(broken=3), 20, PLAIN, ", 3 broken groups", growth=True),
    Row("compress", MANY, 30, (*PLAIN, "--group=group0"), ", a named group", growth=True),
    Row("compress", MANY, 30, PLAIN, ", all groups tried", growth=True),
    Row("balance", MANY, 60, ("--max-moves=500",), ", 500 moves", loads=True, growth=True),
]


def cluster(size: Size) -> Cluster:
    """Half of the instances are on a pool, a third is mirrored. All have a place without offline nodes."""
    rng = random.Random(SEED)
    names = {group: [f"node{group}-{at}" for at in range(size.nodes)] for group in range(size.groups)}
    nodes = {
        name: Node(
            name,
            f"uuid{group}",
            t_mem=float(MEMORY),
            n_mem=1024,
            f_mem=MEMORY - 1024,
            t_dsk=float(DISK),
            f_dsk=DISK,
            t_cpu=48.0,
            t_spindles=1,
            offline=group < size.broken and at == 0,
        )
        for group, members in names.items()
        for at, name in enumerate(members)
    }
    instances = []
    for number in range(size.instances):
        pnode, snode = rng.sample(names[number % size.groups], 2)
        template = rng.choice((*[DiskTemplate.RBD] * 3, *[DiskTemplate.DRBD] * 2, DiskTemplate.PLAIN))
        if nodes[pnode].offline and template is DiskTemplate.PLAIN:
            template = DiskTemplate.RBD  # what a plain one had there is lost
        disk = rng.choice((10, 20, 50)) * 1024 + (DRBD_META if template is DiskTemplate.DRBD else 0)
        row = Instance(
            f"inst{number}",
            rng.choice((1024, 2048, 4096, 8192)),
            disk,
            (Disk(disk),),
            rng.choice((1, 2, 4)),
            pnode=pnode,
            snode=snode if template is DiskTemplate.DRBD else None,
            template=template,
        )
        instances.append(row)
        nodes[pnode] = replace(nodes[pnode], f_mem=nodes[pnode].f_mem - row.mem)
        for name in (pnode, row.snode) if template is not DiskTemplate.RBD else ():
            if name is not None:
                nodes[name] = replace(nodes[name], f_dsk=nodes[name].f_dsk - disk)
    groups = tuple(Group(f"group{group}", f"uuid{group}") for group in range(size.groups))
    return Cluster(groups, tuple(nodes.values()), tuple(instances))


def loads(size: Size) -> str:
    """Dynamic utilisation: the later groups have more of it."""
    rng, lines = random.Random(SEED), []
    for number in range(size.instances):
        usual = 0.5 + 2 * (number % size.groups) / size.groups
        lines.append(f"inst{number} {' '.join(f'{usual * rng.uniform(0.2, 1.8):.3f}' for _ in range(4))}\n")
    return "".join(lines)


class Bench:
    """Runs of hregroup on clusters, which are made once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def runs(self, row: Row, size: Size, times: int) -> list[Run]:
        """Run what a row does on a cluster."""
        path, dynamic = (
            self.directory / f"{kind}-{'-'.join(map(str, size))}" for kind in ("cluster", "loads")
        )
        if not path.exists():
            path.write_text(text.dump(cluster(size)))
            dynamic.write_text(loads(size))
        command: list[str | Path] = [BIN / "hregroup", row.action, "-t", path, *row.options]
        command += [f"-U{dynamic}"] if row.loads else []
        ended = []
        for number in range(times):
            progress(f"{' '.join(map(str, command))}: {number + 1} of {times}")
            ended.append(run(command))
        progress("")
        return ended

    def seconds(self, row: Row, size: Size) -> str:
        """How long it takes on another cluster."""
        return duration(statistics.median(ended.seconds for ended in self.runs(row, size, row.runs)))

    def cells(self, row: Row) -> list[str]:
        """Measure a row; as printed."""
        limit, size = Limit(row.seconds, pace()), row.size
        ours = self.runs(row, size, row.runs)
        (result,) = {summary(row, ended.output) for ended in ours}
        time = statistics.median(ended.seconds for ended in ours)
        half = size._replace(groups=size.groups // 2, instances=size.instances // 2)
        smaller = [half, size._replace(instances=size.instances // 2)] if row.growth else []
        return [
            row.work,
            f"{duration(time)} ({len(ours)})",
            *limit.cells(time),
            *([self.seconds(row, each) for each in smaller] or ["-", "-"]),
            result,
            at_most(max(ended.memory for ended in ours), GIBIBYTE),
        ]


def summary(row: Row, output: str) -> str:
    """The result in a few words."""
    match row.action:
        case "groups":
            return f"{len(re.findall(r'^  group.* healthy ', output, re.MULTILINE))} healthy"
        case "redistribute":
            return f"{len(re.findall('^Repaired: ', output, re.MULTILINE))} repaired"
        case "compress":
            possible = len(re.findall("^Could be emptied: ", output, re.MULTILINE))
            emptied = ", ".join(re.findall("^Emptied: (.*)", output, re.MULTILINE))
            return f"{emptied} emptied" + (f", {possible} could be" if possible else "")
        case _:
            score = re.findall("^Load score (.*)", output, re.MULTILINE)[0]
            return f"{score}, {len(re.findall('^ +[0-9]+[.] ', output, re.MULTILINE))} moves"


TITLE = """Whole process of hregroup: groups x nodes / instances, half of them on a pool, a third mirrored.
Medians; two columns are of half of the groups with their instances, and of half of the instances."""
HEADER = [
    "work",
    "time (runs)",
    "at most",
    "reached",
    "half the groups",
    "half the instances",
    "result",
    "peak memory",
]
NOTES: dict[str, str] = {}


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """Measure; the table."""
    with tempfile.TemporaryDirectory(prefix="htoolsd-bench-") as directory:
        bench = Bench(Path(directory))
        return [HEADER, *(bench.cells(row) for row in rows)]
