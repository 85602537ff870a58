"""``hspace``: count how many more instances a cluster takes (``hspace(1)``)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.cluster import load, make_state, save
from ganeti_htools.cli.report import capacity, capacity_keys, tables
from ganeti_htools.cli.report.allocation import (
    STANDARD,
    TIERED,
    Allocation,
    Mode,
    allocation_json,
    cluster_json,
)
from ganeti_htools.cli.report.page import write_page
from ganeti_htools.cli.report.records import record
from ganeti_htools.cli.report.storage_left import storage_left
from ganeti_htools.cli.report.totals import total
from ganeti_htools.cli.terminal.messages import progress, say, warn
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.commandline.instances import RequestedSizes, requested_instances
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import placement_options
from ganeti_htools.commandline.programs import HSPACE
from ganeti_htools.engine.capacity.counting import Capacity, check_enough, standard, tiered
from ganeti_htools.engine.capacity.obstacles import obstruction
from ganeti_htools.engine.capacity.scope import AllocationScope, bad_groups, chosen_scope
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.cluster import common_suffix
from ganeti_htools.model.columns import Ints
from ganeti_htools.model.errors import HtoolsError, RequestFailed
from ganeti_htools.model.instance_kinds import InstanceKind
from ganeti_htools.model.state import State


def run(line: CommandLine) -> None:
    """Read the cluster, allocate both ways, report what fits. Raises HtoolsError."""
    read = load(line)
    state = make_state(read, line)
    tiers, fixed_size = requested_instances(state, line)
    initial = total(state)
    _introduce(state, line)
    form = capacity_keys if line.machine_readable else capacity
    if not line.json:
        print(form.cluster(state, initial), end="", flush=True)
    scope = _scope(state, tiers.kind, line)
    report, allocations = {"cluster": cluster_json(state, initial)}, list[Allocation]()
    for mode, wish in ((TIERED, tiers), (STANDARD, fixed_size)):
        allocation = _allocation(mode, state, wish, scope, line)
        allocations.append(allocation)
        if line.json:
            report[mode.name.lower()] = allocation_json(allocation)
        else:
            print(form.spec(allocation), end="", flush=True)
        _describe(allocation, line)
        if not line.json:
            print(form.results(allocation, initial), end="", flush=True)
    after = allocations[-1].result.state
    sentence, figures = capacity.page_answer(allocations)
    write_page(
        line,
        "hspace: instances that fit",
        state,
        after,
        more=lambda: capacity.page_section(allocations),
        sentence=sentence,
        figures=figures,
    )
    if line.json:
        print_json(report, read)
    elif line.machine_readable:
        print(capacity_keys.end(), end="")


def _introduce(state: State, line: CommandLine) -> None:
    """Describe the cluster on standard error."""
    suffix = common_suffix(state.cluster)
    if suffix and line.verbose > 1:
        warn(f"Note: Stripping common suffix of '{suffix}' from names")
    say(tables.node_status("Initial cluster", state, line.print_nodes))
    if line.verbose > 2:
        figures = choice.base(state, state.everywhere)
        score = fixed(float(figures.score()), 8)
        say(f"Initial coefficients: overall {score}\n{tables.components(figures)}")


def _scope(state: State, kind: InstanceKind, line: CommandLine) -> AllocationScope:
    """Find the nodes and pairs for instances. Raises HtoolsError if there are too few nodes."""
    options, aloud = placement_options(line), line.verbose > 3
    fragile = bad_groups(state, options) if line.independent_groups or aloud else None
    scope = chosen_scope(state, options, fragile if line.independent_groups else None)
    if aloud and fragile is not None:
        bad_nodes = redundancy_health.bad_nodes(state, state.everywhere)
        _list("Bad nodes", [node.name for node in compress(state.cluster.nodes, bad_nodes)])
        _list("Bad groups", [group.name for group in compress(state.cluster.groups, fragile)])
        warn(f"Allocatable nodes: {_places(state, kind, scope.nodes)}")
    if not scope.closed:
        try:
            check_enough(state, kind.template, scope.nodes)
        except RequestFailed as failure:
            raise HtoolsError(f"failure during allocation: {failure}") from failure
    return scope


def _allocation(
    mode: Mode, state: State, wish: RequestedSizes, scope: AllocationScope, line: CommandLine
) -> Allocation:
    """As many instances as fit, and if there are none, which redundancy is in the way."""
    kind, sizes = wish
    limit = None if line.max_length == -1 else line.max_length

    def allocated(scope: AllocationScope) -> Capacity:
        return _allocated(mode, state, wish, scope, limit)

    result = allocated(scope)
    why = None if result.placed else obstruction(state, kind, scope, allocated)
    left = storage_left(state, result, kind, sizes[0], scope)
    return Allocation(mode, kind, sizes[0], state, result, why, left)


def _places(state: State, kind: InstanceKind, nodes: Ints) -> str:
    """The nodes' rows, or each primary's row with those of its possible secondaries, as Haskell prints."""
    if kind.template.required_nodes == 1:
        return f"Left {_rows(nodes)}"
    seconds = {node: nodes[(state.group[nodes] == state.group[node]) & (nodes != node)] for node in nodes}
    pairs = (f"({node},{_rows(others)})" for node, others in seconds.items() if len(others))
    return f"Right [{','.join(pairs)}]"


def _rows(nodes: Ints) -> str:
    return f"[{','.join(map(str, nodes))}]"


def _list(title: str, names: Sequence[str]) -> None:
    if names:
        warn(f"{title}: {record(tuple(names))}")


def _allocated(
    mode: Mode, state: State, wish: RequestedSizes, scope: AllocationScope, limit: int | None
) -> Capacity:
    kind, sizes = wish
    with progress(f"{mode.name} allocation") as tell:
        placed = 0

        def count(_: int) -> None:
            nonlocal placed
            placed += 1
            if placed % 64 == 0:
                tell(f"{placed} instances tried")

        scope = replace(scope, progress=count)
        if mode is TIERED:
            return tiered(state, kind, sizes, scope, limit)
        return standard(state, kind, sizes[0], scope, limit)


def _describe(allocation: Allocation, line: CommandLine) -> None:
    """Describe an allocation on standard error, and save the cluster after it (``-S``)."""
    mode, before, after = allocation.mode, allocation.before.cluster, allocation.result.state
    title = f"{mode.name} allocation"
    for obstacle in capacity.obstacles(allocation.why):
        warn(f"{title}: {obstacle}")
    if line.verbose > 1:
        say(f"{title} map\n{capacity.instance_map(after, len(before.instances))}")
    if line.print_nodes is not None:
        # Names are shortened as they were before; those of the new instances have no domain.
        named = replace(after.cluster, instances=before.instances)
        say(tables.node_status(title, replace(after, cluster=named), line.print_nodes))
    save(line, mode.name.lower(), f"after {title.lower()}", after.to_cluster)


main = partial(execute, HSPACE, run)
