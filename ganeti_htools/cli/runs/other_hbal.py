"""``hbal --witness``: the plans of Ganeti's own hbal on the same cluster, beside ours."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import trio

from ganeti_htools import machine
from ganeti_htools.backends import text
from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report.balance import GroupReport
from ganeti_htools.cli.report.layout import fitting_table
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HBAL
from ganeti_htools.engine.moving.traffic import copied_by
from ganeti_htools.model.cluster import Cluster, Disk, common_suffix
from ganeti_htools.model.errors import HtoolsError, on_one_line
from ganeti_htools.model.moves import Operation
from ganeti_htools.model.wording import size
from ganeti_htools.planning.jobsets import cost_of
from ganeti_htools.programs import run_program
from ganeti_htools.witness.program import GANETIS_HAIL, MOST_PRINTED, request_file

_HEAD = ("Group", "Program", "Score", "Moves", "To copy", "Time")
_FIGURES = "score", "moves", "disk_mib", "memory_mib"  # of a plan
_PROGRAMS = {"ours": "ours", "theirs": "Ganeti's"}
_LONGEST = 24 * 3600.0  # seconds of the program
_STEP = re.compile(r"(?m)^ +\d+\. (\S+) .* a=(.*)$")
_SCORE = re.compile(r"(?:improved from \S+ to |Initial score: |initial score )([^\s,]+)")
# The options of Ganeti's hbal that change a plan.
_OPTIONS = (
    *("offline", "static_kvm_node_memory", "min_score", "max_cpu", "min_disk", "min_gain", "min_gain_limit"),
    *("max_length", "evac_mode", "restricted_migration", "no_disk_moves", "no_instance_moves"),
    *(
        "ignore_soft_errors",
        "select_instances",
        "exclude_instances",
        "exclusion_tags",
        "dynu_file",
        "ignore_dynu",
    ),
)


def compare(
    line: CommandLine, cluster: Cluster, groups: Iterable[GroupReport], seconds: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return for each group our plan, which took so many ``seconds``, and that of Ganeti's hbal, as JSON."""
    found = []
    for before, after, _, _ in groups:
        cost = cost_of(after.sets)
        figures = after.score, sum(map(len, after.sets)), cost["disk_mib"], cost["memory_mib"]
        took = {"seconds": round(seconds[before.group], 3)}
        ours = dict(zip(_FIGURES, figures, strict=True)) | took
        found.append({"group": before.group, "ours": ours, "theirs": _theirs(line, cluster, before.group)})
    return found


def _theirs(line: CommandLine, cluster: Cluster, group: str) -> dict[str, Any]:
    """Run Ganeti's hbal, and read its plan. It has no figures if there is an ``error``."""
    program, began = line.witness or GANETIS_HAIL, machine.steady()
    with request_file(text.dump(_plain(cluster)).encode()) as descriptor:
        run = partial(
            run_program,
            [program, "-t", f"/proc/self/fd/{descriptor}", "-G", group, *_arguments(line)],
            _LONGEST,
            MOST_PRINTED,
            "a plan",
            pass_fds=[descriptor],
            env=os.environ | {"LC_ALL": "C.UTF-8", "HTOOLS": "hbal"},
        )
        try:
            printed, complaint, status = trio.run(run)
        except HtoolsError as error:
            printed, complaint, status = b"", str(error).encode(), 1
    found = {**dict.fromkeys(_FIGURES), "seconds": round(machine.steady() - began, 3)}
    if status:
        why = on_one_line(complaint.decode(errors="replace").strip().rpartition("\n")[2])
        return found | {"error": why or f"{program}: exit status {status}"}
    suffix = common_suffix(cluster)
    rows = {row.name.removesuffix(suffix): row for row in cluster.instances}
    steps = [
        copied_by([Operation(word.partition(":")[0]) for word in how.split()], rows[name])
        for name, how in _STEP.findall(printed.decode(errors="replace"))
    ]
    scores = _SCORE.findall(printed.decode(errors="replace"))
    figures = len(steps), sum(disk for disk, _ in steps), sum(memory for _, memory in steps)
    return found | dict(zip(_FIGURES, (float(scores[-1]) if scores else None, *figures), strict=True))


def _plain(cluster: Cluster) -> Cluster:
    """Return the cluster without what Ganeti's text files lack."""
    return replace(
        cluster,
        nodes=tuple(replace(node, storage=None, inventories=()) for node in cluster.nodes),
        instances=tuple(
            replace(row, disks=tuple(Disk(disk.size, disk.spindles) for disk in row.disks))
            for row in cluster.instances
        ),
        default_units=(),
    )


def _arguments(line: CommandLine) -> Iterator[str]:
    """Yield the options of a command line that Ganeti's hbal has, too."""
    for option in HBAL.options:
        value = line.given.get(option.field) if option.field in _OPTIONS else None
        if option.field == "offline":
            yield from (f"--offline={name}" for name in value or ())
        elif value is True:
            yield f"--{option.long}"
        elif value is not None:
            yield f"--{option.long}={','.join(value) if isinstance(value, tuple) else value}"


def lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Describe both plans side by side."""
    rows = []
    for each, name in product(found, ("ours", "theirs")):
        plan = each[name]
        score = "" if plan["score"] is None else fixed(plan["score"], 8)
        figures = ("", "")
        if plan["moves"] is not None:
            figures = str(plan["moves"]), size(plan["disk_mib"] + plan["memory_mib"])
        rows.append((each["group"], _PROGRAMS[name], score, *figures, f"{plan['seconds']:.1f} s"))
    yield fitting_table(_HEAD, rows, (False, False, True, True, True, True)).rstrip("\n")
    yield from (f"Ganeti's hbal: {each['theirs']['error']}" for each in found if "error" in each["theirs"])
