"""Moves by name: named in the state that they start from, and what is left of them in a later state."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ganeti_htools.model.moves import Move, NamedMove, title_of
from ganeti_htools.model.state import State


def named_move(state: State, move: Move, was: Sequence[int]) -> NamedMove:
    """Name a move of an instance that is on nodes (rows, primary first)."""
    parts = tuple(
        (part.operation, state.cluster.nodes[part.node].name if part.operation.takes_node else None)
        for part in move.parts
    )
    return NamedMove(
        state.cluster.instances[move.instance].name,
        title_of(move.operations),
        parts,
        tuple(state.names(was)),
        tuple(state.names(move.nodes)),
        move.score,
        move.with_next,
    )


def named(state: State, moves: Iterable[Move]) -> Iterator[NamedMove]:
    places: dict[int, tuple[int, ...]] = {}
    for move in moves:
        was = places.get(move.instance) or state.nodes_of(move.instance)
        places[move.instance] = move.nodes
        yield named_move(state, move, was)


def remaining_move(state: State, row: int, move: NamedMove) -> NamedMove | None:
    """Return the part of a move that an instance (row) still has to make; None if it is off the route."""
    here = tuple(state.names(state.nodes_of(row)))
    primary, secondary = (*move.was, None)[:2]
    for made in range(len(move.parts) + 1):
        if here == tuple(node for node in (primary, secondary) if node is not None):
            return replace(move, parts=move.parts[made:], was=here) if made else move
        if made < len(move.parts):
            operation, node = move.parts[made]
            primary, secondary = operation.nodes(primary, secondary, node)
    return None
