"""Settings of the policies: one table of the configuration file for each policy."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.hours import read_hours
from ganeti_htools.model.load import LoadMode
from ganeti_htools.records import Valid
from htoolsd.config.keys import checked, one_of

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Reserve(NamedTuple):
    """The resources that each node keeps free, in standard instances; ``disks``: their disks as well."""

    instances: float
    disks: bool = False


_BILLION = 10**9
_DAYS = Valid(f"a list of strings from {', '.join(WEEKDAYS)}", lambda days: {*days} <= {*WEEKDAYS})
_SCORE = Valid("a number from 0 to a billion", lambda score: 0 <= score < _BILLION)
_COUNT = Valid("a whole number from 0 to a billion", lambda count: 0 <= count < _BILLION)
_PERCENT = Valid("a number above 0, to 100", lambda value: 0 < value <= 100)
_MIB = Valid("a whole number from 0 to a billion", lambda mib: 0 <= mib < _BILLION)

# Keys with other defaults in some tables.
_Hold = Annotated[int, "rounds in a row with a reason before the policy acts"]
_MaxMoves = Annotated[int, "most moves in one plan"]
_MovesPerDay = Annotated[int, "most moves in a day"]
_CoolDown = Annotated[
    float, "how long a moved instance stays, and a node stays up that was powered up or came back"
]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The keys of every policy: when it acts, and how much it may do. A day is any period of 24 hours."""

    mode: Annotated[
        str,
        one_of("off", "shadow", "propose", "act"),
        "off, shadow (record what it would do), propose (make plans that wait for htoolsctl execute), act",
    ] = "off"
    every_seconds: Annotated[float, "length of a round: how often the policy is considered"] = 600.0
    hold: _Hold = 3
    hours: Annotated[str, checked(read_hours), "local time of day, like 22:00-06:00; empty: always"] = ""
    weekdays: Annotated[
        tuple[str, ...], _DAYS, f"days on which hours begin, of {', '.join(WEEKDAYS)}; empty: all"
    ] = ()
    groups: Annotated[tuple[str, ...], "names of the node groups it may change; empty: all"] = ()
    exclude_instances: Annotated[
        tuple[str, ...], "instances that it never moves, like those with the tag htools:pinned"
    ] = ()
    max_moves: _MaxMoves = 10
    max_mib: Annotated[int, "most disk and memory that one plan copies, MiB"] = 262144
    moves_per_day: _MovesPerDay = 40
    mib_per_day: Annotated[int, "most disk and memory copied in a day, MiB"] = 1048576
    parallel: Annotated[int, _COUNT, "most unfinished jobs of a plan; 0: no limit"] = 0
    cool_down_seconds: _CoolDown = 86400.0
    back_off_seconds: Annotated[float, "pause after a failed plan; doubled with each further failure"] = (
        3600.0
    )
    failures: Annotated[int, "failed plans in a row that switch it off"] = 3


@dataclass(frozen=True, slots=True)
class RebalanceSettings(PolicySettings):
    """The keys of ``[rebalance]``."""

    start: Annotated[
        float, "score of a node group at which it acts; missing N+1 redundancy is a reason, too"
    ] = 2.0
    stop: Annotated[float, "score at which it stops"] = 1.0
    min_gain: Annotated[float, "least improvement of the score by a plan"] = 0.1
    most_even: Annotated[bool, "make the most even plan of hbal --front, instead of the usual one"] = False
    cheapest_below: Annotated[
        float, _SCORE, "make the plan that copies least down to this score; 0: no such score"
    ] = 0.0
    max_copy: Annotated[int, _MIB, "make the best plan that copies at most this, MiB; 0: no limit"] = 0
    price: Annotated[float, _SCORE, "score for each TiB that a plan copies, as hbal --price; 0: none"] = 0.0
    load: Annotated[
        LoadMode, "how measured load counts, as hbal --load: none, upstream, real; none while it is not known"
    ] = "none"

    def __post_init__(self) -> None:
        """Check ``stop`` against ``start``. Raises DataError."""
        if self.stop > self.start:
            raise DataError(f"stop: expected at most start, which is {self.start:g}")
        if bool(self.most_even) + bool(self.cheapest_below) + bool(self.price) > 1:
            raise DataError("expected only one of the keys most_even, cheapest_below and price")


@dataclass(frozen=True, slots=True)
class RelieveSettings(PolicySettings):
    """The keys of ``[relieve]``."""

    start: Annotated[
        float, _PERCENT, "a node is hot above this: percentage of its CPUs in use, or of time that work waits"
    ] = 80.0
    stop: Annotated[
        float,
        _PERCENT,
        "a node that gets an instance stays below this percentage, also in its worst hour",
    ] = 70.0

    def __post_init__(self) -> None:
        """Check ``stop`` against ``start``. Raises DataError."""
        if self.stop > self.start:
            raise DataError(f"stop: expected at most start, which is {self.start:g}")


@dataclass(frozen=True, slots=True)
class SqueezeSettings(PolicySettings):
    """The keys of ``[squeeze]``. Those about resources and nodes are also options of ``hsqueeze(1)``."""

    max_moves: _MaxMoves = 50
    moves_per_day: _MovesPerDay = 200
    cool_down_seconds: _CoolDown = 14400.0
    minimal_resources: Annotated[float, "power nodes up if fewer standard instances are free on a node"] = 1.0
    target_resources: Annotated[float, "power nodes down only if so many stay free on every other node"] = 2.0
    min_nodes: Annotated[int, "fewest nodes that a plan powers down"] = 1
    max_nodes: Annotated[int, "most nodes that a plan powers down"] = 2
    prefer: Annotated[tuple[str, ...], "nodes or node tags: powered down first"] = ()
    never: Annotated[tuple[str, ...], "nodes or node tags: never powered down"] = ()
    allow_drbd: Annotated[bool, "power down nodes with DRBD instances as well"] = False
    allow_all: Annotated[
        bool, "power down nodes with plain or file instances as well; copying stops them"
    ] = False

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

    partial: Annotated[bool, "make the possible moves of a group that cannot be repaired completely"] = False
    disk_moves: Annotated[bool, "move instances whose disks have to be copied"] = True
    allow_plain: Annotated[bool, "move instances that have to be stopped for it"] = False


@dataclass(frozen=True, slots=True)
class RepairSettings(PolicySettings):
    """The keys of ``[repair]``. Its own are also options of ``harep(1)``."""

    hold: _Hold = 1
    max_moves: _MaxMoves = 50
    moves_per_day: _MovesPerDay = 200
    migrate_drained: Annotated[
        bool, "a drained node does not count as failed: mirrored instances migrate off it"
    ] = True
    shared: Annotated[bool, "repair instances on shared storage as well"] = False
