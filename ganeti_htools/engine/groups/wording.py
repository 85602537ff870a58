"""Lists of names in the reasons that actions on node groups give."""

from collections.abc import Sequence


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(shown)
