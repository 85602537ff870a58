"""Names, numbers and sizes in sentences."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def shorten_names(names: Sequence[str]) -> str:
    """Join up to four names; of more, the first three and the number of others."""
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(shown)


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Ask for the nearest of the known words, each of which has this prefix; empty if none is near."""
    from difflib import get_close_matches  # rarely needed

    nearest = get_close_matches(word, known, 1)
    return f"did you mean {prefix}{nearest[0]}?" if nearest else ""


def counted(number: int, noun: str) -> str:
    """Format a number of things: "1 move", "2,000 moves"."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def size(mib: float) -> str:
    """Format a size given in MiB: "512 MiB", "1.5 GiB", "2.0 TiB"."""
    if abs(mib) >= 1024 * 1024:
        return f"{mib / 1024 / 1024:.1f} TiB"
    return f"{mib / 1024:.1f} GiB" if abs(mib) >= 1024 else f"{mib:.0f} MiB"


def duration(seconds: float) -> str:
    """Format seconds in the largest unit that gives at least 2."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def moment(seconds: float) -> str:
    """Format a time (seconds of the epoch) as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def describe_forecast(found: Mapping[str, Any]) -> str:
    """Describe a forecast of a status: "full between 2027-01-31 and 2027-02-20", in local dates."""
    match found["outcome"]:
        case "growing":
            return f"full between {moment(found['earliest'])[:10]} and {moment(found['latest'])[:10]}"
        case "too little history":
            return f"too little history ({counted(found['days'], 'day')})"
        case outcome:
            return str(outcome)
