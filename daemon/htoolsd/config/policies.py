"""Settings of the policies: one table of the configuration file for each policy."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ganeti_htools.model.errors import DataError
from htoolsd.config.keys import key, key_with_default, one_of, text, texts

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(([01]\d|2[0-3]):[0-5]\d)-(([01]\d|2[0-3]):[0-5]\d)")


class Reserve(NamedTuple):
    """The resources that each node keeps free, in standard instances; ``disks``: their disks as well."""

    instances: float
    disks: bool = False


def _hours(name: str, value: object) -> str:
    found = text(name, value)
    if found and not _HOURS.fullmatch(found):
        raise DataError(f"{name}: expected local times like 22:00-06:00, or nothing")
    return found


def _score(name: str, value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:  # type: ignore[operator]
        raise DataError(f"{name}: expected a number from 0 to a billion")
    return float(value)  # type: ignore[arg-type]


def _mib(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < 10**9:
        raise DataError(f"{name}: expected a whole number from 0 to a billion")
    return value


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The keys of every policy: when it acts, and how much it may do. A day is any period of 24 hours."""

    mode: str = key(
        "off",
        "off, shadow (record what it would do), propose (make plans that wait for htoolsctl execute), act",
        read=one_of("off", "shadow", "propose", "act"),
    )
    every_seconds: float = key(600.0, "length of a round: how often the policy is considered")
    hold: int = key(3, "rounds in a row with a reason before the policy acts")
    hours: str = key("", "local time of day, like 22:00-06:00; empty: always", read=_hours)
    weekdays: tuple[str, ...] = key(
        (),
        f"days on which hours begin, of {', '.join(WEEKDAYS)}; empty: all",
        read=texts(*WEEKDAYS),
    )
    groups: tuple[str, ...] = key((), "names of the node groups it may change; empty: all", read=texts())
    exclude_instances: tuple[str, ...] = key(
        (), "instances that it never moves, like those with the tag htools:pinned", read=texts()
    )
    max_moves: int = key(10, "most moves in one plan")
    max_mib: int = key(262144, "most disk and memory that one plan copies, MiB")
    moves_per_day: int = key(40, "most moves in a day")
    mib_per_day: int = key(1048576, "most disk and memory copied in a day, MiB")
    cool_down_seconds: float = key(
        86400.0,
        "how long a moved instance stays, and a node stays up that was powered up or came back",
    )
    back_off_seconds: float = key(3600.0, "pause after a failed plan; doubled with each further failure")
    failures: int = key(3, "failed plans in a row that switch it off")

    def within_hours(self, minute: str) -> bool:
        """Whether a time of day, like ``18:30``, is within ``hours``, the end excluded."""
        begin, _, end = self.hours.partition("-")
        if not begin or begin == end:
            return True
        return begin <= minute < end if begin < end else minute >= begin or minute < end

    def after_midnight(self, minute: str) -> bool:
        """Whether a time of day within ``hours`` belongs to a night that began on the day before."""
        begin, _, end = self.hours.partition("-")
        return begin > end > minute


@dataclass(frozen=True, slots=True)
class RebalanceSettings(PolicySettings):
    """The keys of ``[rebalance]``."""

    start: float = key(2.0, "score of a node group at which it acts; lost N+1 redundancy is a reason, too")
    stop: float = key(1.0, "score at which it stops")
    min_gain: float = key(0.1, "least improvement of the score by a plan")
    most_even: bool = key(False, "make the most even plan of hbal --front, instead of the usual one")
    cheapest_below: float = key(
        0.0, "make the plan that copies least down to this score; 0: no such score", read=_score
    )
    max_copy: int = key(0, "make the best plan that copies at most this, MiB; 0: no limit", read=_mib)
    price: float = key(0.0, "score for each TiB that a plan copies, as hbal --price; 0: none", read=_score)

    def __post_init__(self) -> None:
        """Check ``stop`` against ``start``. Raises DataError."""
        if self.stop > self.start:
            raise DataError(f"stop: expected at most start, which is {self.start:g}")
        if bool(self.most_even) + bool(self.cheapest_below) + bool(self.price) > 1:
            raise DataError("expected only one of the keys most_even, cheapest_below and price")


@dataclass(frozen=True, slots=True)
class SqueezeSettings(PolicySettings):
    """The keys of ``[squeeze]``. Those about resources and nodes are also options of ``hsqueeze(1)``."""

    max_moves: int = key_with_default(PolicySettings, "max_moves", 50)
    moves_per_day: int = key_with_default(PolicySettings, "moves_per_day", 200)
    cool_down_seconds: float = key_with_default(PolicySettings, "cool_down_seconds", 14400.0)
    minimal_resources: float = key(1.0, "power nodes up if a node has room for fewer standard instances")
    target_resources: float = key(2.0, "power nodes down only if every other node keeps room for so many")
    min_nodes: int = key(1, "fewest nodes that a plan powers down")
    max_nodes: int = key(2, "most nodes that a plan powers down")
    prefer: tuple[str, ...] = key((), "nodes or node tags: powered down first", read=texts())
    never: tuple[str, ...] = key((), "nodes or node tags: never powered down", read=texts())
    allow_drbd: bool = key(False, "power down nodes with DRBD instances as well")
    allow_all: bool = key(
        False,
        "power down nodes with plain or file instances as well; copying stops them",
    )

    @property
    def reserve(self) -> Reserve:
        """The free resources that each node keeps; with less, ``[squeeze]`` powers nodes up."""
        return Reserve(self.minimal_resources, self.allow_drbd or self.allow_all)

    def __post_init__(self) -> None:
        """Check the minima against the maxima. Raises DataError."""
        if self.target_resources < self.minimal_resources:
            least = f"minimal_resources, which is {self.minimal_resources:g}"
            raise DataError(f"target_resources: expected at least {least}")
        if self.max_nodes < self.min_nodes:
            raise DataError(f"max_nodes: expected at least min_nodes, which is {self.min_nodes}")


@dataclass(frozen=True, slots=True)
class RedistributeSettings(PolicySettings):
    """The keys of ``[redistribute]``. They are also options of ``hregroup(1)``."""

    partial: bool = key(False, "make the possible moves of a group that cannot be repaired completely")
    disk_moves: bool = key(True, "move instances whose disks have to be copied")
    allow_plain: bool = key(False, "move instances that have to be stopped for it")


@dataclass(frozen=True, slots=True)
class RepairSettings(PolicySettings):
    """The keys of ``[repair]``. Its own are also options of ``harep(1)``."""

    hold: int = key_with_default(PolicySettings, "hold", 1)
    max_moves: int = key_with_default(PolicySettings, "max_moves", 50)
    moves_per_day: int = key_with_default(PolicySettings, "moves_per_day", 200)
    migrate_drained: bool = key(True, "a drained node is not lost: mirrored instances migrate off it")
    shared: bool = key(False, "repair instances on shared storage as well")
