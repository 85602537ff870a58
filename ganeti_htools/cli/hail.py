"""``hail``: decide one iallocator request and exit (``hail(1)``)."""

import sys
from dataclasses import replace
from functools import partial

from ganeti_htools.backends import iallocator
from ganeti_htools.backends.documents import without_garbage_collection
from ganeti_htools.backends.inventory_tags import malformed_inventories
from ganeti_htools.cli.cluster import load, save, with_load
from ganeti_htools.cli.report import tables
from ganeti_htools.cli.report.layout import escape_control_characters, wrapped
from ganeti_htools.cli.report.records import record
from ganeti_htools.cli.terminal.messages import progress, say
from ganeti_htools.cli.terminal.program import execute, print_json
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import placement_options
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.deciding.decision import prepare, respond_on, state_for
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.files import read_bytes
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError, UsageError, inconsistency_warning
from ganeti_htools.model.ignored_tags import request_without_ignored
from ganeti_htools.model.inconsistencies import inconsistencies
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.request import Allocate, Request
from ganeti_htools.model.state import State
from ganeti_htools.sources.installed import with_version


@without_garbage_collection()
def run(line: CommandLine) -> None:
    """Read, decide, answer. Raises HtoolsError."""
    if not line.arguments:
        raise HtoolsError("This program needs an input file.")
    if len(line.arguments) > 1:
        raise HtoolsError("Only one argument is accepted (the input file)")
    options = placement_options(line)
    data = read_bytes(line.arguments[0])
    message = iallocator.read(data)
    request, cluster = message.request, message.cluster
    warnings = (*message.warnings, *malformed_inventories(message.cluster))
    if line.text_data is not None or line.simulate:
        cluster, warnings = load(line), ()
        request = request_without_ignored(request, cluster.tags)
        iallocator.check_known(request, cluster)
    elif not line.ignore_dynu:
        cluster = with_load(cluster, line)
    cluster, options, note = prepare(cluster, request, options)
    state = state_for(with_version(cluster, options.ganeti_version), request, options)
    say(inconsistency_warning((*warnings, *inconsistencies(state))))
    if line.explain is not None:
        from ganeti_htools.cli.report import explanation  # seldom needed

        explanation.tell_places(state, request, options, line.json)
        return
    if line.make_room:
        _make_room(line, state, request, options, data)
        return
    if line.verbose > 1:
        say(f"Received request: {record(request)}\n")
    if line.verbose > 2:
        say(f"Received cluster data: {record(cluster)}\n")
    if line.verbose > 1 and is_dedicated(state, request):
        say("Allocation on a dedicated cluster; using lost-allocations metrics.\n")
    say(tables.node_status("Initial cluster", state, line.print_nodes))
    save(line, "pre-ialloc", "before iallocator run", state.to_cluster)
    answer, after = respond_on(state, request, options, note, ranked=line.json)
    print(answer, flush=True)
    say(tables.node_status("Final cluster", after, line.print_nodes))
    new_first = isinstance(request, Allocate) and after is not state
    save(line, "post-ialloc", "after iallocator run", lambda: _settled(after, new_first))


def _make_room(
    line: CommandLine, state: State, request: Request, options: PlacementOptions, data: bytes
) -> None:
    """Print the moves that make room for the new instance of a message. Raises HtoolsError for others."""
    import json  # seldom needed

    from ganeti_htools.cli.report import room
    from ganeti_htools.cli.report.moves import limits
    from ganeti_htools.planning import making_room
    from ganeti_htools.planning.plan import statement

    if not isinstance(request, Allocate):
        raise UsageError("--make-room: expected a request of type allocate")
    wishes = making_room.options_of(options, line.max_moves, line.max_copy)
    wishes = replace(wishes, request=json.dumps(json.loads(data)["request"]))  # for who judges the plan
    with progress("making room") as live:
        plan = making_room.find(state, request, wishes, live)
    found = plan.describe()
    if line.json:
        described = {} if plan.why_not else {"plan": statement(HAIL.name, plan, state.cluster)}
        print_json(found | described)
    else:
        print(wrapped(room.text(escape_control_characters(found), commands=True)), end="")
        for text in limits(line.max_moves, line.max_copy) if found["steps"] else ():
            print(text)


def _settled(state: State, new_first: bool) -> Cluster:
    """The cluster in a state; Ganeti's hail lists a new instance first."""
    settled = state.to_cluster()
    if new_first:
        return replace(settled, instances=(*settled.instances[-1:], *settled.instances[:-1]))
    return settled


main = partial(execute, HAIL, run)

if __name__ == "__main__":
    sys.exit(main())
