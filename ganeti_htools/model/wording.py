"""Lists of names in sentences."""

from collections.abc import Sequence


def shorten_names(names: Sequence[str]) -> str:
    """Join up to four names; of more, the first three and the number of others."""
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(shown)
