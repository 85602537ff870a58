"""The section of a page about the moves of a plan."""

from collections.abc import Iterable, Sequence

from ganeti_htools.model.wording import size
from ganeti_htools.pages.markup import Markup, command, element, fold, join, section, table
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
