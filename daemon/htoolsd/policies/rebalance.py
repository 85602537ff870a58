"""The policy that balances node groups, with the code of ``hbal``. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.engine.balancing.balance import Balancing, score_of
from ganeti_htools.engine.balancing.traffic import copied
from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import PINNED
from ganeti_htools.planning.hbal import Options, propose
from ganeti_htools.planning.proposal import Execution, Progress
from ganeti_htools.planning.view import View
from htoolsd.policies.conditions import Situation
from htoolsd.policies.memory import Room
from htoolsd.policies.policy import Planned, Policy
from htoolsd.policies.settings import Settings


def measured(state: State, scope: Bools) -> tuple[float, int]:
    """The score of a node group, and how many of its nodes fail N+1."""
    return score_of(state, scope), int(bad_nodes(state, scope).sum())


def planned(
    cluster: Cluster,
    settings: Settings,
    seen: Situation,
    resting: Iterable[str],
    room: Room,
    progress: Progress,
) -> Planned:
    """The first steps of hbal's plan, as far as they may go. Raises HtoolsError."""
    options = _options(cluster, settings, seen.group, resting, room.moves)
    proposal = propose(cluster, options, progress)
    steps = proposal.found["steps"]
    count, mib = _length(cluster, settings, steps, room, bool(seen.n1))
    if not count:
        why = "no move fits into the budget" if steps else "no move improves the score enough"
        return Planned(options, proposal, 0, 0, why)
    if count < len(steps):
        options = replace(options, balancing=replace(options.balancing, max_length=count))
        proposal = propose(cluster, options, progress)
    gain = proposal.score["before"] - proposal.score["after"]
    few = f"the plan would improve the score by {fixed(gain, 8)}, less than {settings.min_gain:g}"
    return Planned(options, proposal, count, mib, None if gain >= settings.min_gain else few)


def _options(
    cluster: Cluster, settings: Settings, group: str, resting: Iterable[str], most_moves: int
) -> Options:
    """What hbal is asked for. Instances that are pinned or rest stay where they are."""
    pinned = {instance.name for instance in cluster.instances if PINNED in instance.tags}
    resting = {instance.name for instance in cluster.instances} & {*resting}
    return Options(
        View(exclude_instances=(*settings.exclude_instances, *sorted(pinned | resting))),
        Balancing(max_length=most_moves),
        Execution(on_change="stop", reason="policy rebalance of htoolsd"),
        group,
    )


def _length(
    cluster: Cluster, settings: Settings, steps: Sequence[Any], room: Room, n1_lost: bool
) -> tuple[int, int]:
    """How many of the first steps are made, and how many MiB they copy: as far as there is room, no instance
    twice, and, unless N+1 is lost, until the score is no more than ``stop``.
    """
    rows = {instance.name: instance for instance in cluster.instances}
    moved, copies = set[str](), 0
    for step in steps:
        name = step["instance"]
        more = sum(copied(MoveKind(step["move"]), rows[name]))
        if name in moved or len(moved) == room.moves or copies + more > room.mib:
            break
        moved.add(name)
        copies += more
        if not n1_lost and float(step["score"]) <= settings.stop:
            break
    return len(moved), copies


REBALANCE = Policy("rebalance", "hbal", measured, planned)
