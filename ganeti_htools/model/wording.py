"""Names, numbers and sizes in sentences."""

import time
from collections.abc import Sequence


def shorten_names(names: Sequence[str]) -> str:
    """Join up to four names; of more, the first three and the number of others."""
    shown = names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(shown)


def counted(number: int, noun: str) -> str:
    """Format a number of things: "1 move", "2 moves"."""
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def size(mib: float) -> str:
    """Format a size given in MiB: "512 MiB", "1.5 GiB", "2.0 TiB"."""
    if abs(mib) >= 1024 * 1024:
        return f"{mib / 1024 / 1024:.1f} TiB"
    return f"{mib / 1024:.1f} GiB" if abs(mib) >= 1024 else f"{mib:.0f} MiB"


def moment(seconds: float) -> str:
    """Format a time (seconds of the epoch) as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
