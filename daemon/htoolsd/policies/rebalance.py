"""The policy that balances node groups, with the code of ``hbal``. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.execution.review import Check
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.hbal import Options, propose
from ganeti_htools.planning.node_groups import select
from ganeti_htools.planning.proposal import Execution, OnChange, Progress, Proposal
from ganeti_htools.planning.view import View
from htoolsd.policies.bounds import Bounds
from htoolsd.policies.budget import affordable
from htoolsd.policies.conditions import Need
from htoolsd.policies.policy import Facts, Planned, Remedy, staying
from htoolsd.policies.safety import UNSAFE, guarded, safe, steps_of
from htoolsd.policies.settings import Rebalance


def need(facts: Facts, settings: Rebalance) -> Need:
    """Whether the score is too high, or N+1 is lost. A score that is no number is none to act on."""
    lost, score = facts.n1 > 0, f"score {fixed(facts.score, 8)}"
    over, low = facts.score >= settings.start, not facts.score > settings.stop
    why = f"{score} is over the start" if over else f"{score} is below the start, {settings.start:g}"
    return Need(lost or over, low and not lost, "N+1 is lost" if lost else why)


def planned(cluster: Cluster, settings: Rebalance, bounds: Bounds, progress: Progress) -> Planned:
    """The first steps of hbal's plan, as far as they may go. Raises HtoolsError."""
    options = Options(
        View(exclude_instances=staying(cluster, settings, bounds.resting)),
        BalancingOptions(max_length=bounds.room.moves),
        Execution(on_change="stop", reason="policy rebalance of htoolsd"),
        bounds.group,
    )
    proposal = propose(cluster, options, progress)
    steps = proposal.found["steps"]
    state = view.state_of(cluster, options.view)
    _, scope = select(state, bounds.group)
    movable = view.movable(state, options.view)
    kept = steps[: safe(state, scope, movable, steps_of(proposal.jobs), bounds.reserve)]
    copies = list(_enough(affordable(cluster, kept, bounds.room), kept, settings.stop, bounds.n1 > 0))
    if not copies:
        why = "no move fits into the budget" if kept else UNSAFE
        why = why if steps else "no move improves the score enough"
        return Planned(options, proposal, 0, 0, proposal.score["after"], refusal=why)
    if len(copies) < len(steps):
        options = replace(options, balancing=replace(options.balancing, max_length=len(copies)))
        proposal = propose(cluster, options, progress)
    gain = proposal.score["before"] - proposal.score["after"]
    few = f"the plan would improve the score by {fixed(gain, 8)}, less than {settings.min_gain:g}"
    whole = _guarded(proposal, options, bounds)
    found = Planned(options, whole, len(copies), sum(copies), proposal.score["after"])
    return found.refused(None if gain >= settings.min_gain else few)


def _guarded(proposal: Proposal, options: Options, bounds: Bounds) -> Proposal:
    """The plan, looked at again for safety as well."""

    def review(on_change: OnChange, say: Say) -> Check:
        return guarded(proposal.review(on_change, say), options.view, bounds.group, bounds.reserve)

    return replace(proposal, review=review)


def _enough(
    copies: Iterable[int], steps: Sequence[Mapping[str, Any]], stop: float, n1_lost: bool
) -> Iterator[int]:
    """What the first steps copy, until the score is no more than ``stop``, unless N+1 is lost."""
    for mib, step in zip(copies, steps, strict=False):
        yield mib
        if not n1_lost and float(step["score"]) <= stop:
            return


REBALANCE = Remedy("rebalance", "rebalance", "hbal", need, planned)
