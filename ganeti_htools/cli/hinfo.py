"""``hinfo``: show a cluster (``hinfo(1)``)."""

from dataclasses import asdict
from functools import partial
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.cluster import load, make_state
from ganeti_htools.cli.report import overview, storage, tables
from ganeti_htools.cli.report.records import policy_record
from ganeti_htools.cli.terminal.messages import say, warn
from ganeti_htools.cli.terminal.program import execute, print_json, printer
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.programs import HINFO
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.state import State


def run(line: CommandLine) -> None:
    """Read the cluster and show it. Raises HtoolsError."""
    cluster = load(line)
    tell = printer(line)
    tell(f"Loaded cluster tags: {','.join(cluster.tags)}")
    if line.verbose > 2:
        tell(f"Loaded cluster ipolicy: {policy_record(cluster.ipolicy)}")
    state = make_state(cluster, line)
    if line.json:
        print_json(overview.as_json(state) | ({"storage": _storage(state)} if line.storage else {}), cluster)
        return
    if not cluster.instances and line.verbose > 1:
        print("Cluster is empty.")
    print(overview.size(state))
    suffix = common_suffix(cluster)
    if suffix and line.verbose > 2:
        print(f"Note: Stripping common suffix of '{suffix}' from names")
    _show_split(state, line.verbose)
    groups = overview.groups(state)
    if line.verbose > 1:
        print(f"Node group information:\n{overview.group_table(groups)}", end="")
    if line.storage:
        print(storage.text(_storage(state)), end="")
    print(f"Cluster is N+1 {'happy' if all(group.n1_happy for group in groups) else 'unhappy'}", flush=True)
    if line.print_instances:
        say(tables.instance_map("Instances", state))
    say(tables.node_status("Cluster", state, line.print_nodes))
    statistics = overview.statistics(state)
    score = fixed(float(statistics.score()), 8)
    print(f"Cluster coefficients:\n{tables.components(statistics)}Cluster score: {score}")
    if line.verbose > 1:
        print(f"Rules of Ganeti {rules_of(cluster.ganeti).name}")


def _storage(state: State) -> dict[str, Any]:
    return asdict(storage_of(state.cluster, state.units))


def _show_split(state: State, verbose: int) -> None:
    names = overview.split_names(state)
    if names:
        print("Found instances belonging to multiple node groups:", flush=True)
        for name in names:
            warn(f"  {name}")
    elif verbose > 1:
        print("No split instances found")


main = partial(execute, HINFO, run)
