"""``[relieve]``: takes one instance off each node that stays hot, by live migration. Pure functions.

The plans are those of ``hbal`` in form, and are checked by other rules: no score has to improve.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.relief import (
    MIGRATIONS,
    Heat,
    heat_of,
    hot_anywhere,
    reliefs,
    worst_hours,
)
from ganeti_htools.engine.moving.named_moves import named_move
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools, Floats
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.load import PresentLoad
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names
from ganeti_htools.planning import steps, view
from ganeti_htools.planning.balancing.hbal import BalancingPlan, HbalOptions, restore_group
from ganeti_htools.planning.balancing.node_groups import select
from ganeti_htools.planning.plan import Progress
from htoolsd.config.policies import RelieveSettings
from htoolsd.policies.rebalance import guarded_proposal
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from htoolsd.policies.safety import UNSAFE, affordable, copies_of, safe_moves, steps_of


@dataclass(frozen=True)
class ReliefPlan(BalancingPlan):
    """Live migrations off hot nodes, to nodes that stay below ``stop`` in their worst hour."""

    stop: float = 1.0

    @property
    def purpose(self) -> str:
        """Purpose of the jobs."""
        return "relieving hot nodes"

    def obstacle(self, state: State, rest: Jobsets) -> str | None:
        """Make the remaining moves on a copy of the state. Raises HtoolsError."""
        after, moves = state.copy(), steps_of(rest)
        _, scope = select(state, self.options.group)
        why = recheck.obstacle(after, scope, moves, MIGRATIONS, view.movable(state, self.options.view))
        if why is not None:
            return why
        worst = worst_hours(after)
        hot = [move.now[0] for move in moves if worst[state.nodes[move.now[0]]] >= self.stop]
        return f"node {hot[0]} would not stay below {100 * self.stop:g} %" if hot else None

    def replan(self, state: State, rest: Jobsets, made: int, progress: Progress) -> Self:
        """Raises HtoolsError: the next round finds what is hot then."""
        raise HtoolsError("the remaining moves do not fit; the policy makes another plan")


class Relieve(Remedy[RelieveSettings]):
    """Live migrations off hot nodes."""

    title = policy = "relieve"
    tool = "hbal"

    def need(self, facts: GroupFacts) -> Need:
        """Whether nodes are hot: their use of CPU or their pressure is above ``start``.

        Raises HtoolsError if load is not used.
        """
        present = _present(facts.cluster)
        heat, online = heat_of(facts.state, present), facts.scope & ~facts.state.columns.offline
        levels, start = heat.levels, self.settings.start
        rows = [row for row in _hottest(levels) if online[row] and levels[row] > start / 100]
        names = facts.state.names(np.flatnonzero(online))
        blind = [name for name in names if present.pressure and name not in present.pressure]
        more = f"; without pressure: {shorten_names(blind)}" if blind else ""
        if not rows:
            return Need(False, True, f"no node is above the start, {start:g} %{more}")
        hot = tuple(facts.state.names(rows))
        said = _in_words(facts.state, heat, rows)
        return Need(True, False, f"above the start, {start:g} %: {said}{more}", "hot", hot)

    def plan(self, cluster: Cluster, bounds: PlanBounds, progress: Progress) -> RemedyPlan:
        """Plan one move off each hot node of the bounds, the hottest first. Raises HtoolsError."""
        common = self.common_options(cluster, bounds.resting)
        seen = replace(common["view"], load="real")
        options = HbalOptions(
            view=seen, execution=common["execution"], balancing=MIGRATIONS, group=bounds.group
        )
        present, state = _present(cluster), view.state_of(cluster, seen)
        start, stop = self.settings.start / 100, self.settings.stop / 100
        group, scope = select(state, bounds.group)
        heat, movable, after = heat_of(state, present), view.movable(state, seen), state.copy()
        made, obstacles = list[NamedMove](), list[str]()
        hot = [row for row in _hottest(heat.levels) if heat.levels[row] > start]
        for row in (row for row in hot if state.cluster.nodes[row].name in bounds.hot):
            why = None
            for move, cooler in reliefs(after, scope, movable, heat, row, start, stop):
                progress("")
                step = named_move(after, move, after.nodes_of(move.instance))
                described = steps.to_json([*made, step])
                if len(affordable(copies_of(cluster, described), bounds.room)) < len(described):
                    why = why or "no move fits into the budget"
                elif not safe_moves(after, scope, movable, [step], bounds.reserve):
                    why = why or UNSAFE
                else:
                    deque(recheck.retrace(after, movable, [step]), 0)
                    made.append(replace(step, score=score_of(after, scope)))
                    heat = cooler
                    break
            else:
                obstacles.append(why or _obstacle(after, scope, heat, row, self.settings.stop))
        described = steps.to_json(made)
        options = replace(options, balancing=replace(MIGRATIONS, max_length=len(made)))
        part = restore_group(state, group, scope, options, {"greedy": None, "steps": described})
        proposal = guarded_proposal(ReliefPlan(state, options, [part], stop).proposal(), options, bounds)
        mib = sum(size for _, size in copies_of(cluster, described))
        why = _in_words(state, heat_of(state, present), [state.nodes[step.was[0]] for step in made])
        plan = RemedyPlan(options, proposal, len(made), mib, why=why)
        return plan.refused(None if made else "; ".join(dict.fromkeys(obstacles)) or "no node is hot")


def _present(cluster: Cluster) -> PresentLoad:
    """Return the present load. Raises HtoolsError if load is not used."""
    present = cluster.present_load
    if present is None or present.unused or not cluster.load_profiles:
        why = (present and present.unused) or "it is not measured"
        raise HtoolsError(f"measured load is not used: {why}")
    return present


def _in_words(state: State, heat: Heat, rows: Sequence[int]) -> str:
    """Return names and levels of nodes (rows)."""
    named = zip(state.names(rows), heat.levels[list(rows)].tolist(), strict=True)
    return shorten_names([f"{name} {100 * level:.0f} %" for name, level in named])


def _hottest(levels: Floats) -> list[int]:
    """Return the rows of nodes, the hottest first."""
    order: list[int] = np.argsort(-levels, kind="stable").tolist()
    return order


def _obstacle(state: State, scope: Bools, heat: Heat, row: int, stop: float) -> str:
    """Return why no instance leaves a hot node (row)."""
    (name,) = state.names([row])
    alone = hot_anywhere(state, scope, heat, row, stop / 100)
    if alone is not None:
        instance = state.cluster.instances[alone].name
        return f"{name} is hot because of instance {instance}, which would make any node hot"
    return f"no live migration off {name} leaves the other node below the stop, {stop:g} %"
