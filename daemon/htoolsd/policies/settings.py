"""What an administrator says about a policy: a table of the configuration file."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ganeti_htools.model.errors import DataError
from htoolsd.keys import again, key, one_of, text, texts

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(([01]\d|2[0-3]):[0-5]\d)-(([01]\d|2[0-3]):[0-5]\d)")


class Reserve(NamedTuple):
    """For how many standard instances each node keeps room, and whether also for their disks."""

    instances: float
    disks: bool = False


def _hours(name: str, value: object) -> str:
    found = text(name, value)
    if found and not _HOURS.fullmatch(found):
        raise DataError(f"{name}: expected local times like 22:00-06:00, or nothing")
    return found


@dataclass(frozen=True, slots=True)
class Settings:
    """When a policy does something, and how much: the keys of each. Durations are seconds; "a day" are any 24
    hours.
    """

    mode: str = key(
        "off",
        "off, shadow (record what it would do), propose (make plans that wait for execute), act",
        read=one_of("off", "shadow", "propose", "act"),
    )
    every_seconds: float = key(600.0, "how often it is considered, a round")
    hold: int = key(3, "begin once there has been a reason for so many rounds in a row")
    hours: str = key("", "local time of day, like 22:00-06:00; empty: always", read=_hours)
    weekdays: tuple[str, ...] = key(
        (),
        f"days on which hours begin, of {', '.join(WEEKDAYS)}; empty: all",
        read=texts(*WEEKDAYS),
    )
    groups: tuple[str, ...] = key((), "names of node groups; empty: all", read=texts())
    exclude_instances: tuple[str, ...] = key(
        (), "instances that stay, like those with the tag htools:pinned", read=texts()
    )
    max_moves: int = key(10, "most moves of one plan")
    max_mib: int = key(262144, "most MiB of disks and memory that one plan copies")
    moves_per_day: int = key(40, "most moves in a day")
    mib_per_day: int = key(1048576, "most MiB in a day")
    cool_down_seconds: float = key(
        86400.0, "how long an instance stays that has moved, and a node up that was powered or came back"
    )
    back_off_seconds: float = key(3600.0, "pause after a plan that failed; twice as long after each more")
    failures: int = key(3, "so many plans failed in a row switch it off")

    def within_hours(self, minute: str) -> bool:
        """Whether a time of day, like 18:30, is one of ``hours``. The end does not belong to them."""
        begin, _, end = self.hours.partition("-")
        if not begin or begin == end:
            return True
        return begin <= minute < end if begin < end else minute >= begin or minute < end

    def after_midnight(self, minute: str) -> bool:
        """Whether a time of day within ``hours`` belongs to those that began the day before."""
        begin, _, end = self.hours.partition("-")
        return begin > end > minute


@dataclass(frozen=True, slots=True)
class Rebalance(Settings):
    """The keys of ``[rebalance]``."""

    start: float = key(2.0, "a reason is a score of a node group that is so high, or that N+1 is lost")
    stop: float = key(1.0, "go on until the score is below this, and no further")
    min_gain: float = key(0.1, "what a plan has to improve the score by")

    def __post_init__(self) -> None:
        """Raises DataError for thresholds that exclude each other."""
        if self.stop > self.start:
            raise DataError(f"stop: expected no more than start, which is {self.start:g}")


@dataclass(frozen=True, slots=True)
class Squeeze(Settings):
    """The keys of ``[squeeze]``; those of resources and nodes mean what they mean to ``hsqueeze(1)``."""

    max_moves: int = again(Settings, "max_moves", 50)
    moves_per_day: int = again(Settings, "moves_per_day", 200)
    cool_down_seconds: float = again(Settings, "cool_down_seconds", 14400.0)
    minimal_resources: float = key(1.0, "power up if a node has room for fewer standard instances")
    target_resources: float = key(2.0, "power down as long as every node keeps room for so many")
    min_nodes: int = key(1, "what a plan has to power down, nodes")
    max_nodes: int = key(2, "most nodes that one plan powers down")
    prefer: tuple[str, ...] = key((), "nodes, or tags of nodes, that are powered down first", read=texts())
    never: tuple[str, ...] = key((), "nodes, or tags of nodes, that are not powered down", read=texts())
    allow_drbd: bool = key(False, "whether nodes with DRBD instances are powered down as well")
    allow_all: bool = key(
        False, "whether also those with plain or file ones, which are stopped while they are copied"
    )

    @property
    def reserve(self) -> Reserve:
        """What each node keeps, so that no others are powered up for that."""
        return Reserve(self.minimal_resources, self.allow_drbd or self.allow_all)

    def __post_init__(self) -> None:
        """Raises DataError for bounds that exclude each other."""
        if self.target_resources < self.minimal_resources:
            least = f"minimal_resources, which is {self.minimal_resources:g}"
            raise DataError(f"target_resources: expected no less than {least}")
        if self.max_nodes < self.min_nodes:
            raise DataError(f"max_nodes: expected no less than min_nodes, which is {self.min_nodes}")


@dataclass(frozen=True, slots=True)
class Redistribute(Settings):
    """The keys of ``[redistribute]``; they mean what they mean to ``hregroup(1)``."""

    disk_moves: bool = key(True, "whether instances are moved whose disks have to be copied")
    allow_plain: bool = key(False, "whether instances are moved that have to be stopped for it")
