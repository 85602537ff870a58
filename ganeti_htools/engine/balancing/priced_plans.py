"""Plans by what they copy: data, charge and time (``hbal(1)``)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from ganeti_htools.engine.balancing.replay import DIGITS
from ganeti_htools.engine.balancing.way_costs import Weights
from ganeti_htools.engine.moving.traffic import bandwidths, copied, seconds
from ganeti_htools.model import tags
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State

TIB = 1 << 20  # MiB
SHARE = 0.15


class PricedPlan(NamedTuple):
    """The first steps of a plan, with the score then, the data they copy (MiB), and the time that takes (s).

    ``whole`` are all steps of the plan. ``weighted`` is the data with the factors of instances; ``charge``
    has the weights of the options too.
    """

    whole: Sequence[Move]
    length: int
    score: float
    disk: int = 0
    memory: int = 0
    weighted: float = 0.0
    charge: float = 0.0
    seconds: float = 0.0

    @property
    def copied(self) -> int:
        """The data that the steps copy."""
        return self.disk + self.memory

    @property
    def steps(self) -> Sequence[Move]:
        return self.whole[: self.length]

    @property
    def figures(self) -> tuple[float, float]:
        """The figures by which plans are compared: data to copy and score."""
        return self.weighted, round(self.score, DIGITS)

    def within(self, copying: CopyingOptions, options: BalancingOptions) -> bool:
        limits = (
            (self.copied, copying.max_copy),
            (self.length, copying.max_moves),
            (self.length, options.max_length),
            (self.seconds, copying.max_time),
        )
        return all(limit < 0 or figure <= limit for figure, limit in limits)


def weights_of(copying: CopyingOptions) -> Weights:
    """Return the weights by which copying is charged: points of score if it has a price, otherwise MiB."""
    if not copying.priced:
        return Weights()
    memory, failover = copying.price_memory, copying.price_failover
    return Weights(
        copying.price / TIB,
        (copying.price if memory is None else memory) / TIB,
        copying.price / 1024 if failover is None else failover,
    )


def default_price(state: State, scope: Bools) -> float:
    """Return the price (score for each TiB) at which the disks and memory of all instances of the nodes cost
    SHARE points, in three digits.
    """
    mib = sum(row.dsk + row.mem for row in compress(state.cluster.instances, scope[state.pnode]))
    return float(f"{SHARE * TIB / mib:.3g}") if mib else 0.0


def priced_plans(
    state: State, copying: CopyingOptions, score: float, steps: Iterable[Move]
) -> Iterator[PricedPlan]:
    """Yield "no move", which has the ``score``, and the plan up to each of the steps."""
    whole, places = tuple(steps), dict[int, tuple[int, ...]]()
    weights, speeds = weights_of(copying), bandwidths(state, 0)
    plan = PricedPlan(whole, 0, score)
    yield plan
    for step in whole:
        row, index = state.cluster.instances[step.instance], step.instance
        disk, memory = copied(step.kind, row)
        failovers = 0 if row.status.running else sum(not each.copies_disks for each in step.kind.operations)
        charge = weights.disk * disk + weights.memory * memory + weights.failover * failovers
        factor = tags.price_factor(row.tags)
        place = places.get(index) or state.nodes_of(index)
        places[index] = step.nodes
        plan = PricedPlan(
            whole,
            plan.length + 1,
            step.score,
            plan.disk + disk,
            plan.memory + memory,
            plan.weighted + factor * (disk + memory),
            plan.charge + factor * charge,
            plan.seconds + seconds(row, speeds, place, step.parts, copying.speed(row.template.value)),
        )
        yield plan
