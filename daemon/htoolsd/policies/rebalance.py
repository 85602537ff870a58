"""The policy that balances node groups, with the code of ``hbal``. Pure functions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.engine.balancing.balance import Balancing
from ganeti_htools.engine.balancing.traffic import copied
from ganeti_htools.engine.rules.move_kinds import MoveKind
from ganeti_htools.execution.review import Check
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.planning import view
from ganeti_htools.planning.hbal import Options, propose
from ganeti_htools.planning.node_groups import select
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.policies.conditions import Need, Situation
from htoolsd.policies.memory import Room
from htoolsd.policies.policy import Facts, Planned, Remedy, staying
from htoolsd.policies.safety import UNSAFE, guarded, safe, steps_of
from htoolsd.policies.settings import Rebalance


def need(facts: Facts, settings: Rebalance) -> Need:
    """Whether the score is too high, or N+1 is lost. A score that is no number is none to act on."""
    lost, score = facts.n1 > 0, f"score {fixed(facts.score, 8)}"
    over, low = facts.score >= settings.start, not facts.score > settings.stop
    why = f"{score} is over the start" if over else f"{score} is below the start, {settings.start:g}"
    return Need(lost or over, low and not lost, "N+1 is lost" if lost else why)


def planned(cluster: Cluster, settings: Rebalance, seen: Situation, progress: Progress) -> Planned:
    """The first steps of hbal's plan, as far as they may go. Raises HtoolsError."""
    options = Options(
        View(exclude_instances=staying(cluster, settings, seen.resting)),
        Balancing(max_length=seen.room.moves),
        Execution(on_change="stop", reason="policy rebalance of htoolsd"),
        seen.group,
    )
    proposal = propose(cluster, options, progress)
    steps = proposal.found["steps"]
    state = view.state_of(cluster, options.view)
    _, scope = select(state, seen.group)
    movable = view.movable(state, options.view)
    kept = steps[: safe(state, scope, movable, steps_of(proposal.jobs), seen.reserve)]
    count, mib = _length(cluster, settings, kept, seen.room, bool(seen.n1))
    if not count:
        why = "no move fits into the budget" if kept else UNSAFE
        why = why if steps else "no move improves the score enough"
        return Planned(options, proposal, 0, 0, proposal.score["after"], refusal=why)
    if count < len(steps):
        options = replace(options, balancing=replace(options.balancing, max_length=count))
        proposal = propose(cluster, options, progress)
    gain = proposal.score["before"] - proposal.score["after"]
    few = f"the plan would improve the score by {fixed(gain, 8)}, less than {settings.min_gain:g}"
    found = Planned(options, _guarded(proposal, options, seen), count, mib, proposal.score["after"])
    return found.refused(None if gain >= settings.min_gain else few)


def _guarded(proposal: Proposal, options: Options, seen: Situation) -> Proposal:
    """The plan, looked at again for safety as well."""

    def review(on_change: OnChange, say: Say) -> Check:
        return guarded(proposal.review(on_change, say), options.view, seen.group, seen.reserve)

    return replace(proposal, review=review)


def _length(
    cluster: Cluster, settings: Rebalance, steps: Sequence[Any], room: Room, n1_lost: bool
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


REBALANCE = Remedy("rebalance", "rebalance", "hbal", need, planned)
