"""What an administrator says about a policy: a table of the configuration file."""

import re
from dataclasses import dataclass

from ganeti_htools.model.errors import DataError
from htoolsd.keys import key, one_of, text, texts

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(([01]\d|2[0-3]):[0-5]\d)-(([01]\d|2[0-3]):[0-5]\d)")


def _hours(name: str, value: object) -> str:
    found = text(name, value)
    if found and not _HOURS.fullmatch(found):
        raise DataError(f"{name}: expected local times like 22:00-06:00, or nothing")
    return found


@dataclass(frozen=True, slots=True)
class Settings:
    """When a policy does something, and how much. Durations are seconds; "a day" are any 24 hours."""

    mode: str = key(
        "off",
        "off, shadow (record what it would do), propose (make plans that wait for execute), act",
        read=one_of("off", "shadow", "propose", "act"),
    )
    every_seconds: float = key(600.0, "how often it is considered, a round")
    start: float = key(2.0, "begin once the score of a node group is so high, or N+1 is lost ...")
    hold: int = key(3, "... for so many rounds in a row")
    stop: float = key(1.0, "go on until the score is below this, and no further")
    min_gain: float = key(0.1, "what a plan has to improve the score by")
    hours: str = key("", "local time of day, like 22:00-06:00; empty: always", read=_hours)
    weekdays: tuple[str, ...] = key((), f"some of {', '.join(WEEKDAYS)}; empty: all", read=texts(*WEEKDAYS))
    groups: tuple[str, ...] = key((), "names of node groups; empty: all", read=texts())
    exclude_instances: tuple[str, ...] = key(
        (), "instances that stay, like those with the tag htools:pinned", read=texts()
    )
    max_moves: int = key(10, "most moves of one plan")
    max_mib: int = key(262144, "most MiB of disks and memory that one plan copies")
    moves_per_day: int = key(40, "most moves in a day")
    mib_per_day: int = key(1048576, "most MiB in a day")
    cool_down_seconds: float = key(86400.0, "how long an instance stays that has moved, by whomever")
    back_off_seconds: float = key(3600.0, "pause after a plan that failed; twice as long after each more")
    failures: int = key(3, "so many plans failed in a row switch it off")

    def __post_init__(self) -> None:
        """Raises DataError for thresholds that exclude each other."""
        if self.stop > self.start:
            raise DataError(f"stop: expected no more than start, which is {self.start:g}")

    def within_hours(self, minute: str) -> bool:
        """Whether a time of day, like 18:30, is one of ``hours``. The end does not belong to them."""
        begin, _, end = self.hours.partition("-")
        if not begin or begin == end:
            return True
        return begin <= minute < end if begin < end else minute >= begin or minute < end
