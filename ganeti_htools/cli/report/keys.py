"""``KEY=VALUE`` lines, the machine-readable form of Ganeti's tools: shell fragments."""

from collections.abc import Iterable


def lines(prefix: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A line for each pair. Values that have anything but letters, digits and points are quoted."""
    return "".join(f"{prefix}_{key.upper()}={_quoted(value)}\n" for key, value in pairs)


def _quoted(value: str) -> str:
    return value if all(letter.isalnum() or letter == "." for letter in value) else f"'{value}'"
