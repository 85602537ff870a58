"""Policies together over days in which load comes and goes, on the simulator."""

from collections.abc import Iterable
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.planning import view
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.view import View
from htoolsd.config.policies import PolicySettings, RebalanceSettings, Reserve, SqueezeSettings
from htoolsd.policies.memory import DAY
from htoolsd.policies.observe import group_facts, needs
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.safety import safe_moves, steps_of
from htoolsd.policies.verdict import BEGUN, PolicyDecision
from tests.support.clocks import jumping
from tests.support.days import Log, Site, lived

PACE = 7200.0  # seconds: of the load, and of rounds
SEEN = PACE / 3 + PACE / 4  # seconds until such a daemon has seen a move
SITE = Site(1, 5, 30)
SQUEEZE = st.builds(
    SqueezeSettings,
    mode=st.just("act"),
    every_seconds=st.just(PACE),
    hold=st.integers(1, 2),
    max_nodes=st.integers(1, 2),
    max_moves=st.integers(8, 30),
    moves_per_day=st.integers(20, 60),
    mib_per_day=st.integers(60_000, 200_000),
    cool_down_seconds=st.floats(2 * PACE, 8 * PACE),
    target_resources=st.floats(2.0, 3.0),
)
REBALANCE = st.builds(
    lambda start, share, **more: RebalanceSettings(start=start, stop=start * share, **more),
    st.floats(0.5, 2.0),
    st.floats(0.2, 0.9),
    mode=st.just("act"),
    every_seconds=st.just(PACE),
    hold=st.integers(1, 3),
    min_gain=st.floats(0.01, 0.2),
    max_moves=st.integers(1, 6),
    moves_per_day=st.integers(2, 20),
    cool_down_seconds=st.floats(2 * PACE, DAY),
)


def log_of(seed: int, days: float, **wishes: PolicySettings) -> Log:
    """Return the log of some days."""
    with TemporaryDirectory() as directory, jumping() as clock:

        async def run() -> Log:
            return await lived(Path(directory), SITE, Random(seed), days, PACE, **wishes)

        return trio.run(run, clock=clock)


def begun(log: Log, policy: str | None = None) -> list[PolicyDecision]:
    """The plans that were begun, by all policies or one."""
    return [each for each in log.decisions if each.outcome == BEGUN and policy in (None, each.policy)]


def check_cool_downs(log: Log, wishes: dict[str, PolicySettings]) -> None:
    """No plan moves what has moved within the cool-down of its policy, and no plan moves anything twice.

    What a plan that was stopped has not come to has not moved. There is one group, so one plan at a time.
    """
    last: dict[str, float] = {}
    plans = begun(log)
    for plan, end in zip(plans, [*(each.time for each in plans[1:]), inf], strict=True):
        names = [str(move["instance"]) for move in plan.moves]
        assert len(names) == len(set(names))
        for name in names:
            assert plan.time - last.get(name, -DAY) >= wishes[plan.policy].cool_down_seconds
        last |= {name: plan.time for when, name, _ in log.moves if plan.time <= when < end}


def check_budgets(log: Log, wishes: dict[str, PolicySettings], sizes: dict[str, int]) -> None:
    """Of each run, and of any 24 hours."""
    for policy, wish in wishes.items():
        plans = [(each.time, [str(move["instance"]) for move in each.moves]) for each in begun(log, policy)]
        for when, names in plans:
            today = [name for then, others in plans if when - DAY < then <= when for name in others]
            assert len(names) <= wish.max_moves
            assert len(today) <= wish.moves_per_day
            assert sum(sizes[name] for name in names if name in sizes) <= wish.max_mib
            assert sum(sizes[name] for name in today if name in sizes) <= wish.mib_per_day


def check_scores(log: Log, wish: RebalanceSettings, reserve: Reserve) -> None:
    """What is over the start for long enough, and is left there, is what the budgets, cool-downs and what has
    to stay free do not let down. Rounds have one cause and the same online nodes.
    """
    over, counted = 0, -DAY
    counted_for: object = None
    moves = [(when, name) for when, name, _ in log.moves]  # of all policies, when they began and were made
    moves += [(plan.time, str(move["instance"])) for plan in begun(log) for move in plan.moves]
    for decision, cluster in log.seen:
        if decision.policy != "rebalance" or cluster is None:
            continue
        now, score = decision.time, decision.score["before"]
        assert score is not None
        ((_, need),) = needs(Rebalance(wish), group_facts(cluster))
        about = need.cause, {node.name for node in cluster.nodes if not node.offline}
        if about != counted_for:
            over, counted, counted_for = 0, -DAY, about
        if score < wish.start or decision.reason.startswith(UNJUDGED):
            over = 0
        elif now - counted >= 60:
            over, counted = over + 1, now
        if over < wish.hold or decision.reason.startswith(BUSY):
            continue
        since = {name: now - when for when, name in sorted(moves) if when < now}
        if any(0 <= each - wish.cool_down_seconds < SEEN for each in since.values()):
            continue  # the daemon perhaps does not know yet that they may move again
        resting = {name for name, each in since.items() if each < wish.cool_down_seconds}
        today = [len(plan.moves) for plan in begun(log, "rebalance") if now - DAY < plan.time < now]
        room = min(wish.max_moves, wish.moves_per_day - sum(today))
        after = decision.score["after"] if decision.outcome == BEGUN else score
        assert after is not None
        least = reachable(cluster, resting, room, reserve, score)
        assert after < wish.start or after - least < wish.min_gain + 1e-6


# Why a group is not judged, and what goes first.
UNJUDGED = ("the daemon's data", "instances have come", "nodes do not report", "nodes are drained")
BUSY = ("plan ", "unfinished jobs", "power up comes first")


def reachable(cluster: Cluster, resting: set[str], room: int, reserve: Reserve, score: float) -> float:
    """The score that balancing leads to, by no more than so many safe moves of instances that may move."""
    here = tuple(sorted(row.name for row in cluster.instances if row.name in resting))
    options = hbal.HbalOptions(
        view=View(exclude_instances=here), balancing=BalancingOptions(max_length=max(0, room))
    )
    proposal = hbal.HBAL.propose(cluster, options, lambda _text: None)
    state = view.state_of(cluster, options.view)
    everywhere, movable = np.ones(len(state.group), np.bool_), view.movable(state, options.view)
    steps = proposal.found["steps"][
        : safe_moves(state, everywhere, movable, steps_of(proposal.jobs), reserve)
    ]
    names = [step["instance"] for step in steps]
    twice = next((at for at, name in enumerate(names) if name in names[:at]), len(names))
    return float(steps[twice - 1]["score"]) if twice else score


def flaps(power: Iterable[tuple[float, str, bool]], cool_down: float) -> int:
    """How often a node went to sleep within a cool-down after it had woken up."""
    woke: dict[str, float] = {}
    count = 0
    for when, name, off in power:
        if off:
            count += name in woke and when - woke[name] < cool_down
        else:
            woke[name] = when
    return count


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, pytest.param(14, marks=pytest.mark.long)])
@settings(max_examples=1)
@given(st.integers(0, 1 << 16), SQUEEZE, REBALANCE)
def test_policies_keep_their_limits_while_load_comes_and_goes(
    days: int, seed: int, squeeze: SqueezeSettings, rebalance: RebalanceSettings
) -> None:
    wishes: dict[str, PolicySettings] = {"squeeze": squeeze, "rebalance": rebalance}
    log = log_of(seed, days, squeeze=squeeze, rebalance=rebalance)
    check_cool_downs(log, wishes)
    check_budgets(log, wishes, {name: mib for _, name, mib in log.moves})
    check_scores(log, rebalance, squeeze.reserve)
    assert not log.broken  # neither N+1 nor the reserve that was there, by any job
    assert flaps(log.power, squeeze.cool_down_seconds) == 0
    assert log.moves or not begun(log)
