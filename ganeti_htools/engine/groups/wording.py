"""Short lists of names."""

from collections.abc import Sequence


def some(names: Sequence[str]) -> str:
    """Join the first names, and count the rest."""
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(shown)
