"""What a plan for a node group has to keep to, beside what the settings say. Plain data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti_htools.execution.shape import Shape, fits
from htoolsd.policies.memory import Room
from htoolsd.policies.settings import Reserve


class Bounds(NamedTuple):
    """The ``group``, and what a plan may do there at the moment.

    ``n1`` is how many nodes fail N+1, ``room`` what the budgets leave, ``reserve`` what nodes have to keep
    free. ``resting`` are instances that moved lately, ``switched`` nodes that were powered or came back
    lately, ``claimed`` nodes of which somebody has claimed something; ``quiet`` are the other groups in which
    nothing goes on.
    """

    group: str
    n1: int = 0
    room: Room = Room(0, 0)
    reserve: Reserve = Reserve(0.0)
    resting: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {**self._asdict(), "room": self.room._asdict(), "reserve": self.reserve._asdict()}


_BOUNDS: Shape = {
    "group": str,
    "n1": int,
    "room": {"moves": int, "mib": int},
    "reserve": {"instances": (int, float), "disks": bool},
    **{name: [str] for name in ("resting", "switched", "claimed", "quiet")},
}


def restored(told: Any) -> Bounds | None:
    """The bounds that were kept; None if these are none."""
    if not fits(told, _BOUNDS):
        return None
    known: Mapping[str, Any] = {name: told[name] for name in Bounds._fields}
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    room, reserve = Room(**told["room"]), Reserve(**told["reserve"])
    return Bounds(**{**known, **lists, "room": room, "reserve": reserve})
