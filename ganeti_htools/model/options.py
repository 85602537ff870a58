"""Typed options that callers pass to the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ganeti_htools.model.ganeti_version import GanetiVersion

USUAL_BANDWIDTH = 100  # Mbit/s


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Constraints of a placement decision (``hail(1)``, ``htools(1)``).

    * ``capacity``: accept only states that are globally N+1 redundant.
    * ``accept_existing``: do not require N+1 redundancy of nodes that are offline already.
    * ``ignore_soft_errors``: drop the soft limits.
    * ``restrict_to``: names of the only nodes for new instances; overrides the request's own restriction.
    * ``inter_group``: an instance that leaves a node and fits nowhere in its group may go to another group.
    * ``static_kvm_node_memory``: MiB that a KVM node needs for itself; 0 uses the reported value.
    * ``ganeti_version``: the version whose rules hold, unless the source of the cluster has it.
    """

    capacity: bool = True
    accept_existing: bool = False
    ignore_soft_errors: bool = False
    restrict_to: tuple[str, ...] | None = None
    static_kvm_node_memory: int = 4096
    inter_group: bool = False
    ganeti_version: GanetiVersion | None = None


@dataclass(frozen=True, slots=True)
class BalancingOptions:
    """Moves that balancing may make, and when it stops (``hbal(1)``).

    * ``disk_moves``, ``instance_moves``: allow moves that copy disks, and moves of instances.
    * ``restricted_migration``: migrate off offline nodes only.
    * ``evacuation``: move only instances of offline nodes.
    * ``ignore_soft_errors``: drop the soft limits.
    * ``unmirrored``: plain and file instances leave offline nodes too. They are stopped and copied, which
      works only from nodes that still run.
    * ``min_gain``: least gain of a step once the score is at most ``min_gain_limit``.
    * ``max_length``: most steps; negative for no limit.
    * ``min_score``: stop when the score is within this distance of the lowest possible score.
    * ``disk_moves_factor``: copy disks only for this many times the gain of the best step without a copy.
    * ``long_factor``: from 0.01, leave out moves that gain too little for their duration, once the plan
      takes ``long_threshold`` seconds (:mod:`ganeti_htools.engine.balancing.balance`).
    """

    disk_moves: bool = True
    disk_moves_factor: float | None = None
    long_threshold: float = 1000.0
    long_factor: float = 0.0
    instance_moves: bool = True
    restricted_migration: bool = False
    evacuation: bool = False
    ignore_soft_errors: bool = False
    unmirrored: bool = False
    min_gain: float = 1e-2
    min_gain_limit: float = 1e-1
    min_score: float = 1e-9
    max_length: int = -1


@dataclass(frozen=True, slots=True)
class CopyingOptions:
    """The price of what a balancing plan copies, limits, and the choice among plans (``hbal(1)``).

    * ``price``: score for each TiB of disks that is copied.
    * ``price_memory``: the same for memory (default: ``price``).
    * ``price_failover``: score for each failover of an instance that does not run (default: ``price`` of
      1 GiB).
    * ``max_copy`` (MiB of disks and memory), ``max_moves``, ``max_time`` (seconds, if one move follows the
      other): limits of the plan; negative for no limit.
    * ``bandwidth``: Mbit/s between nodes without bandwidth tags; None for that of ``measured``, by disk
      template, or else USUAL_BANDWIDTH.
    * ``front``: show up to so many plans, none of which another beats in both score and copying.
    * ``pick``: number of the plan among these to carry out; 0 for none.
    * ``most_even``: the plan with the lowest score.
    * ``cheapest_below``: the plan that copies least of those with at most this score.
    """

    price: float = 0.0
    price_memory: float | None = None
    price_failover: float | None = None
    max_copy: int = -1
    max_moves: int = -1
    max_time: float = -1.0
    bandwidth: int | None = None
    measured: Mapping[str, int] = field(default_factory=dict)
    front: int = 0
    pick: int = 0
    most_even: bool = False
    cheapest_below: float | None = None

    def speed(self, template: str) -> int:
        """Return the Mbit/s at which instances of a disk template are copied where tags do not say it."""
        return self.bandwidth or self.measured.get(template, USUAL_BANDWIDTH)

    @property
    def limited(self) -> bool:
        """Whether the plan has a limit of copying, moves or time."""
        return self.max_copy >= 0 or self.max_moves >= 0 or self.max_time >= 0

    @property
    def priced(self) -> bool:
        """Whether copying has a price."""
        return bool(self.price or self.price_memory or self.price_failover)

    @property
    def chosen(self) -> bool:
        """Whether the options say which plan is the best one."""
        return bool(self.priced or self.front or self.most_even or self.cheapest_below is not None)

    @property
    def wanted(self) -> bool:
        """Whether plans are compared by what they copy; otherwise the plan is the usual one."""
        return self.limited or self.chosen
