"""``hscan``: save clusters in the text format (``hscan(1)``)."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from ganeti_htools.anonymity.cluster import rename_cluster, substitutes_of
from ganeti_htools.backends import text
from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HSCAN
from ganeti_htools.commandline.sources import source_of
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.score import score
from ganeti_htools.files import write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import by_unit
from ganeti_htools.model.derive import derive
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.state import State
from ganeti_htools.sources.source import Source, read

FAILED = 2  # exit status if any cluster could not be read or saved

_LOCAL = "LOCAL"  # what the own cluster is called
_HEADER = ("Nodes", "Inst", "BNode", "BInst", "t_mem", "f_mem", "t_disk", "f_disk", "Score".rjust(10))
_WIDTHS = (5, 5, 5, 5, 6, 6, 6, 6)  # a score is as wide as it is


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster in figures; sizes are MiB. Nodes are bad if they fail N+1, instances if on such nodes."""

    nodes: int
    instances: int
    bad_nodes: int
    bad_instances: int
    total_memory: float
    free_memory: int
    total_disk: float
    free_disk: int
    score: float


def run(line: CommandLine) -> int:
    """Save one cluster after the other; the exit status, which is FAILED if any could not be saved.

    Arguments name clusters to read over the remote API; without any, this machine's cluster is read.
    """
    names = line.arguments or (_LOCAL,)
    width = max(map(len, names))
    if not (line.no_headers or line.json):
        _row("Name".ljust(width), _HEADER)
    reports = [_scan(line, name, width) for name in names]
    if line.json:
        print_json(reports)
    return FAILED if any("error" in report for report in reports) else 0


def _source(line: CommandLine, name: str) -> Source:
    """Find the source of a cluster by its name. Raises HtoolsError if options name several sources."""
    if line.arguments:
        return Source(
            rapi=name,
            rapi_ca=line.rapi_ca,
            rapi_credentials=line.rapi_credentials,
            ask_storage=line.ask_storage,
            ganeti_version=line.ganeti_version,
        )
    given = source_of(line)
    return given._replace(luxi=given.luxi or "")


def _scan(line: CommandLine, name: str, width: int) -> dict[str, object]:
    """Save a cluster; its figures or the error, as JSON. Without ``--json`` they are printed at once."""
    try:
        cluster = read(_source(line, name), warn, line.verbose > 1).cluster
        state = derive(cluster, static_kvm_node_memory=line.static_kvm_node_memory)
        saved = _to_save(cluster, line.static_kvm_node_memory)
        called = name.replace("/", "_")
        if line.anonymise:
            saved = rename_cluster(saved, substitutes_of(saved))
            called = f"cluster-{line.arguments.index(name) + 1}" if line.arguments else name
        path = os.path.join(line.output_dir, f"{called}.data")
        write_text(path, text.dump(saved))
    except HtoolsError as error:
        if not line.json:
            print(f"\nError for {name}: failed to load data. Details:\n{error}", flush=True)
        return {"name": name, "error": str(error)}
    summary = summarise(state)
    if not line.json:
        _row(name.ljust(width), _figures(summary))
        if line.print_nodes is not None:
            sys.stdout.write(tables.nodes(state, line.print_nodes))
        sys.stdout.flush()
    return {"name": name, "file": path, **asdict(summary)}


def _to_save(cluster: Cluster, static_kvm_node_memory: int) -> Cluster:
    """Return the cluster as this version of Ganeti saves it."""
    if not static_kvm_node_memory or not rules_of(cluster.ganeti).saves_static_memory:
        return cluster
    nodes = tuple(
        replace(node, n_mem=static_kvm_node_memory) if node.hypervisor == "kvm" else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def _figures(summary: Summary) -> Sequence[str]:
    return (
        *(str(count) for count in (summary.nodes, summary.instances)),
        *(str(count) for count in (summary.bad_nodes, summary.bad_instances)),
        *(fixed(summary.total_memory, 0), str(summary.free_memory)),
        *(fixed(summary.total_disk / 1024, 0), str(summary.free_disk // 1024)),
        fixed(summary.score, 8),
    )


def _row(name: str, cells: Sequence[str]) -> None:
    *counts, last = cells
    print(name, *(cell.rjust(width) for cell, width in zip(counts, _WIDTHS, strict=True)), last, flush=True)


def summarise(state: State) -> Summary:
    """Compute the figures of a cluster's line."""
    columns, nodes = state.columns, state.cluster.nodes
    everyone = np.ones(len(nodes), np.bool_)
    return Summary(
        nodes=len(nodes),
        instances=len(state.cluster.instances),
        bad_nodes=int(redundancy_health.bad_nodes(state, everyone).sum()),
        bad_instances=int(redundancy_health.bad_instances(state, everyone).sum()),
        total_memory=sum(node.t_mem for node in nodes),
        free_memory=sum(node.f_mem for node in nodes),
        total_disk=sum(sum(whole.tolist()) for whole in by_unit(columns, "t_dsk")),
        free_disk=sum(int(free.sum()) for free in by_unit(columns, "f_dsk")),
        score=score(columns, affinity.location_exclusion(state, everyone)),
    )


main = partial(execute, HSCAN, run)
