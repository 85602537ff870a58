"""The section of a page about the moves of a plan."""

from collections.abc import Iterable, Iterator, Sequence

from ganeti_htools.engine.allocation.move_parts import carry_out
from ganeti_htools.engine.rules.broken_rules import broken_rules
from ganeti_htools.model.moves import Move
from ganeti_htools.model.node_state import NodeState
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names, size
from ganeti_htools.pages.markup import Markup, command, element, fold, join, section, table
from ganeti_htools.pages.score import words
from ganeti_htools.pages.sides import Side
from ganeti_htools.planning.groups.health import weighted_score
from ganeti_htools.planning.jobsets import PlannedMove

Jobsets = Sequence[Sequence[PlannedMove]]


def moves(jobsets: Jobsets, reasons: Iterable[str]) -> Markup:
    """Return the table of the moves of a plan, each with its reason, and all commands.

    An empty text without moves.
    """
    made = [(number, move) for number, jobs in enumerate(jobsets, 1) for move in jobs]
    if not made:
        return Markup()
    rows = [
        (
            str(place),
            str(number),
            move.instance,
            why,
            ", ".join(move.was),
            ", ".join(move.now),
            size(move.disk),
            join(element("div", element("code", each)) for each in move.commands),
        )
        for place, ((number, move), why) in enumerate(zip(made, reasons, strict=True), 1)
    ]
    header = ("Move", "Jobset", "Instance", "Why", "From", "To", "Disks", "Commands")
    numeric = [name in ("Move", "Jobset", "Disks") for name in header]
    listed = table("Moves in their order", header, rows, numeric)
    commands = (each for _, move in made for each in move.commands)
    return section("Moves", listed, fold("All commands, to copy", command(*commands)))


def reasons(before: Side, after: Side, moves: Iterable[Move]) -> Iterator[str]:
    state = before.state.copy()
    for move in moves:
        last, asked = state.copy(), state.instance(move.instance)
        for part in move.parts:
            carry_out(state, asked, part, PlacementOptions(ignore_soft_errors=True))
        yield (
            _of_rules(last, state, move.instance)
            or _of_nodes(last, state, after, move.instance)
            or _of_score(last, state, move)
        )


def _of_rules(last: State, state: State, index: int) -> str:
    """Name the rules of an instance that a move mends."""
    if state.rules is None or not state.cluster.instances[index].tags:
        return ""
    was, now = ({each.rule for each in broken_rules(end) if index in each.instances} for end in (last, state))
    return f"mends {shorten_names(sorted(was - now))}" if was - now else ""


def _of_nodes(last: State, state: State, after: Side, index: int) -> str:
    """Name what a move empties, fills or repairs: nodes, or a group."""
    was, now = last.nodes_of(index), state.nodes_of(index)
    left, entered = ([row for row in one if row not in other] for one, other in ((was, now), (now, was)))
    for row in left:
        name, off = after.nodes[row], after.state.columns.offline[row]
        if off and not last.columns.offline[row]:
            return f"empties {name}, to power it down"
        if last.node_state(row) is not NodeState.IN_USE:
            return f"leaves {name}, which is {last.node_state(row).phrase}"
    for row in entered:
        if last.columns.offline[row]:
            return f"uses {after.nodes[row]}, which is powered up"
    rows = [row for row in was if last.columns.fail_n1[row] and not state.columns.fail_n1[row]]
    if rows:
        return f"N+1 holds again on {shorten_names([after.nodes[row] for row in rows])}"
    groups = [str(end.group_name(rows[0])) for end, rows in ((last, was), (state, now)) if rows]
    if len(set(groups)) < 2:
        return ""
    emptied = not (last.group[after.state.pnode] == last.group[was[0]]).any()
    return f"empties group {groups[0]}" if emptied else f"leaves group {groups[0]} for {groups[1]}"


def _of_score(last: State, state: State, move: Move) -> str:
    """Name the component of the group's score that a move lowers most."""
    scope = state.group == state.group[state.pnode[move.instance]]
    was, now = (weighted_score(end, scope)["components"] for end in (last, state))
    gains = {
        name: old - now[name]
        for name, old in was.items()
        if old is not None and now[name] is not None and "_forth" not in name
    }
    best = max(gains, key=gains.__getitem__, default="")
    if best and gains[best] > 0 and sum(gains.values()) > 0:
        return f"{words(best)}: {gains[best]:.2g} less"
    return "goes with the next move" if move.with_next else "makes room for later moves"
