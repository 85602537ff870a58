"""The section of a page about the moves of a plan."""

from collections.abc import Sequence

from ganeti_htools.model.wording import counted, size
from ganeti_htools.pages.markup import Markup, element, join, section, table
from ganeti_htools.planning.jobsets import PlannedMove

Jobsets = Sequence[Sequence[PlannedMove]]


def moves(jobsets: Jobsets) -> Markup:
    """Return the table of the moves of a plan."""
    made = [(number, move) for number, jobs in enumerate(jobsets, 1) for move in jobs]
    if not made:
        return section("Moves", element("p", "No instance moves."))
    rows = [
        (
            str(place),
            str(number),
            move.instance,
            ", ".join(move.was),
            ", ".join(move.now),
            size(move.disk),
            join(element("div", element("code", command)) for command in move.commands),
        )
        for place, (number, move) in enumerate(made, 1)
    ]
    disk, memory = (sum(getattr(move, kind) for _, move in made) for kind in ("disk", "memory"))
    told = (
        f"{counted(len(made), 'move')} in {counted(len(jobsets), 'jobset')};"
        f" to copy: {size(disk)} of disks, {size(memory)} of memory."
    )
    header = ("Move", "Jobset", "Instance", "From", "To", "Disks", "Commands")
    numeric = (True, True, False, False, False, True, False)
    return section("Moves", element("p", told), table("Moves in their order", header, rows, numeric))
