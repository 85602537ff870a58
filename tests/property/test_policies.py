"""A policy over weeks of load that drifts and is noisy: what it may not do, whatever comes."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti_htools.model.cluster import Cluster, Group, Load
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.planning.balancing import hbal
from ganeti_htools.planning.squeezing import hsqueeze
from htoolsd.config.policies import RebalanceSettings, SqueezeSettings
from htoolsd.policies.conditions import Situation, obstacles, with_next_round
from htoolsd.policies.memory import DAY, Budget, Expense, PolicyMemory, resting
from htoolsd.policies.observe import group_facts, needs
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.remedy import PlanBounds, RemedyPlan
from htoolsd.policies.squeeze import PowerDown
from htoolsd.policies.squeeze_plans import group_alone, safe_steps
from tests.support.clusters import Shape
from tests.support.phases import in_phases
from tests.support.rows import with_master
from tests.support.seeds import few
from tests.support.worlds import instance, node

ROUND = 2 * 3600.0  # seconds
WEEK = int(7 * DAY / ROUND)  # rounds
SETTINGS = st.builds(
    lambda start, share, **more: RebalanceSettings(mode="act", start=start, stop=start * share, **more),
    st.floats(0.5, 4.0),
    st.floats(0.2, 1.0),
    hold=st.integers(1, 4),
    min_gain=st.floats(0.01, 0.3),
    max_moves=st.integers(1, 4),
    moves_per_day=st.integers(1, 6),
    max_mib=st.integers(500, 3000),
    mib_per_day=st.integers(500, 6000),
    cool_down_seconds=st.floats(ROUND, 5 * DAY),
    hours=st.sampled_from(["", "20:00-06:00"]),
    every_seconds=st.just(ROUND),
)


@dataclass
class Weeks:
    """A cluster under a policy: the moves it made (when, which, MiB), and why it skipped where it could."""

    cluster: Cluster
    settings: RebalanceSettings
    now: float = 1e9
    memory: PolicyMemory = field(default_factory=PolicyMemory)
    moved: dict[str, float] = field(default_factory=dict)
    plans: list[Expense] = field(default_factory=list)
    moves: list[tuple[float, str]] = field(default_factory=list)

    def go_on(self) -> str | None:
        """A round; why nothing was done in it."""
        self.now += ROUND
        remedy = Rebalance(self.settings)
        ((facts, need),) = needs(remedy, group_facts(self.cluster, self.now))
        local, rounds = datetime.fromtimestamp(self.now, UTC), self.memory.rounds_of("rebalance", facts.group)
        seen = with_next_round(Situation(remedy, self.memory, facts, local, need, rounds=rounds))
        self.memory.rounds["rebalance"] = {facts.group: seen.rounds}
        for condition, _ in obstacles(seen):
            return condition
        room = self.memory.plan_budget(self.settings, self.now)
        rests = tuple(resting(self.moved, self.settings, self.now))
        bounds = PlanBounds(facts.group, facts.n1, room, resting=rests)
        found = remedy.plan(self.cluster, bounds, lambda _text: None)
        if found.refusal is not None:
            return "gain"
        targets = {move["instance"]: move["to"][0] for move in found.moves_to_json()}
        names = list(targets)
        drifted, self.cluster = self.cluster, moved_to(self.cluster, targets)
        (after,) = (each.score for each in group_facts(self.cluster))
        assert after <= facts.score - self.settings.min_gain + 1e-6
        if after > self.settings.start:
            self.explain(drifted, found, room)
        spent = Expense(self.now, found.moves, found.mib)
        self.memory.spend(spent)
        self.plans.append(spent)
        self.moves += [(self.now, name) for name in names]
        self.moved |= dict.fromkeys(names, self.now)
        return None

    def explain(self, before: Cluster, found: RemedyPlan, room: Budget) -> None:
        """What a plan left over the start, the budget or the cool-down does not let it bring down."""
        options = replace(found.options, balancing=BalancingOptions())
        rest = hbal.HBAL.propose(before, options, lambda _text: None).found["steps"][found.moves :]
        sizes = {row.name: row.mem for row in before.instances}
        assert (
            not rest
            or found.moves == room.moves
            or found.mib + sizes[rest[0]["instance"]] > room.mib
            or rest[0]["instance"] in {move["instance"] for move in found.moves_to_json()}
        )

    def places(self) -> tuple[str, ...]:
        return tuple(row.pnode for row in self.cluster.instances)


def begun(random: Random) -> Cluster:
    """Four nodes, and instances of different sizes anywhere on them."""
    nodes = [node(name, t_mem=16384.0, f_mem=16288) for name in ("one", "two", "three", "four")]
    rows = []
    for at in range(14):
        row = replace(instance(f"web{at}", DiskTemplate.EXT, ""), mem=random.choice([250, 500, 1000]))
        place = random.randrange(4) if random.random() < 0.5 else 0
        rows.append(replace(row, pnode=nodes[place].name))
        nodes[place] = replace(nodes[place], f_mem=nodes[place].f_mem - row.mem)
    return Cluster((Group("default", "uuid"),), tuple(nodes), tuple(rows))


def moved_to(cluster: Cluster, targets: dict[str, str]) -> Cluster:
    """The cluster with instances on other nodes."""
    free = {row.name: row.f_mem for row in cluster.nodes}
    for row in cluster.instances:
        free[row.pnode] += row.mem
        free[targets.get(row.name, row.pnode)] -= row.mem
    instances = [replace(row, pnode=targets.get(row.name, row.pnode)) for row in cluster.instances]
    nodes = [replace(row, f_mem=free[row.name]) for row in cluster.nodes]
    return replace(cluster, nodes=tuple(nodes), instances=tuple(instances))


def drift(cluster: Cluster, random: Random) -> Generator[Cluster, Cluster, None]:
    """The cluster's loads, round after round: a slow walk, and noise upon it."""
    walks = [random.uniform(0.5, 1.5) for _ in cluster.instances]
    while True:
        walks = [min(6.0, max(0.05, walk * random.uniform(0.9, 1.11))) for walk in walks]
        loads = [Load(walk * random.uniform(0.8, 1.25), 1.0, 1.0, 1.0) for walk in walks]
        rows = [replace(row, load=load) for row, load in zip(cluster.instances, loads, strict=True)]
        cluster = yield replace(cluster, instances=tuple(rows))


def check(weeks: Weeks) -> None:
    """Budgets and cool-downs were kept."""
    last: dict[str, float] = {}
    for when, name in weeks.moves:
        assert when - last.get(name, 0.0) >= weeks.settings.cool_down_seconds - 0.001  # of large floats
        last[name] = when
    for plan in weeks.plans:
        day = [each for each in weeks.plans if plan.time - DAY < each.time <= plan.time]
        assert sum(each.moves for each in day) <= weeks.settings.moves_per_day
        assert sum(each.mib for each in day) <= weeks.settings.mib_per_day
        assert plan.moves <= weeks.settings.max_moves
        assert plan.mib <= weeks.settings.max_mib
    assert len(weeks.moves) == sum(plan.moves for plan in weeks.plans)


@settings(max_examples=2)
@given(st.integers(0, 1 << 32), SETTINGS)
def test_keeps_limits_and_acts_on_high_scores_while_load_changes(seed: int, wish: RebalanceSettings) -> None:
    random = Random(seed)
    weeks = Weeks(begun(random), wish)
    loads = drift(weeks.cluster, random)
    weeks.cluster = next(loads)
    for _ in range(WEEK):
        why = weeks.go_on()
        # A score that was over the start for long enough is only left alone for other reasons.
        assert why != "hold" or weeks.memory.rounds_of("rebalance", "default").streak < wish.hold
        weeks.cluster = loads.send(weeks.cluster)
    check(weeks)


@settings(max_examples=2)
@given(st.integers(0, 1 << 32), SETTINGS)
def test_comes_to_rest_when_load_does_not_change(seed: int, wish: RebalanceSettings) -> None:
    """It never comes back to what was, and once it has rested so long that all may move, it rests."""
    random = Random(seed)
    weeks = Weeks(begun(random), wish)
    weeks.cluster = next(drift(weeks.cluster, random))
    been, calm = {weeks.places()}, 0
    while calm * ROUND <= max(wish.cool_down_seconds, DAY) + DAY:
        calm += 1
        if weeks.go_on() is None:
            assert weeks.places() not in been
            been.add(weeks.places())
            calm = 0
    count = len(weeks.moves)
    for _ in range(2 * int(DAY / ROUND)):
        weeks.go_on()
    assert len(weeks.moves) == count
    check(weeks)


@pytest.mark.parametrize("seeds", few(range(1), 2))
@pytest.mark.parametrize("allowed", ["allow_drbd", "allow_all"])
def test_plans_of_hsqueeze_are_safe_for_policies(allowed: str, seeds: range) -> None:
    """In each phase: what looks at single moves finds no fault with a plan that holds N+1 on the way."""
    wish: dict[str, Any] = {allowed: True, "minimal_resources": 0.25, "target_resources": 0.25}
    shape = Shape(nodes=6, instances=8, templates={"drbd": 3, "ext": 1}, fill=0.3, down=0)
    moves = 0
    for made in (in_phases(), *(with_master(seed, shape) for seed in seeds)):
        group = group_alone(made, made.groups[0].name)
        options = PowerDown(SqueezeSettings(max_nodes=9, **wish)).options(group)
        proposal = hsqueeze.HSQUEEZE.propose(group, options, lambda _text: None)
        assert safe_steps(group, options, proposal) == len(proposal.found["steps"])
        moves += len(proposal.found["steps"])
    assert moves > 5
