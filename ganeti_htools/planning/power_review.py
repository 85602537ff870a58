"""The rest of a plan of ``hsqueeze``, looked at again on a cluster that may have changed."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice

from ganeti_htools.engine.balancing.recheck import named
from ganeti_htools.engine.squeezing import recheck
from ganeti_htools.engine.squeezing.power_plan import Action, PowerPlan
from ganeti_htools.engine.squeezing.recheck import NamedPhase
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.moves import NamedStep
from ganeti_htools.model.state import State
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.power_reserve import kept_free
from ganeti_htools.planning.power_told import then_down
from ganeti_htools.planning.proposal import OnChange, Progress, replanned, unwatched


def reviewer(
    planned: State,
    found: PowerPlan,
    options: Options,
    on_change: OnChange,
    say: Say,
    watched: Callable[[], AbstractContextManager[Progress]] = unwatched,
) -> Check:
    """A function that checks the rest of a plan that was made for a state.

    Where the rest does not fit, it says so, and plans anew if ``on_change`` allows it. Of nodes that do not
    report then either, what was known at first is still known.
    """
    phases, enough = _named(planned, found), found.enough
    powered: set[str] = set()
    said: set[str] = set()

    def say_without_power(state: State) -> None:
        """Say once of nodes that nobody can power on or off that this is so."""
        nodes = [name for phase in phases for name in phase.nodes]
        rows = [state.cluster.nodes[state.nodes[name]] for name in nodes if name in state.nodes]
        names = [row.name for row in rows if row.powered is None and row.name not in said]
        said.update(names)
        if names:
            say(f"No out-of-band program for {', '.join(names)}: the power is left as it is")

    def check(cluster: Cluster, rest: Jobsets, _made: int) -> Review:
        nonlocal phases, enough
        state = hsqueeze.seen(replace(cluster, standby=cluster.standby or planned.cluster.standby), options)
        say_without_power(state)
        minimum, target = (kept_free(state, factor, options.allowed) for factor in options.factors)
        left = _left(phases, rest)
        up, down = _nodes(phases, Action.ONLINE), _nodes(phases, Action.OFFLINE)
        if down and not _nodes(left, Action.OFFLINE):
            return Review()  # they are offline already
        if up and not _nodes(left, Action.ONLINE):
            powered.update(up)
        promised = minimum if enough and (up or not down) else None
        movable = view.movable(state, options.view)
        obstacle = recheck.obstacle(state, left, promised, target, movable)
        if obstacle is None:
            return Review()
        new = replanned(
            obstacle, on_change, say, watched, lambda progress: hsqueeze.plan(state, options, progress)
        )
        if new is None:
            return Review(obstacle)
        phases, enough = _named(state, new), new.enough
        vainly = powered.intersection(_nodes(phases, Action.ONLINE))
        if vainly:
            return Review(f"powered up, but still offline or drained: {', '.join(sorted(vainly))}")
        say(hsqueeze.TITLES[new.action], *state.names(new.nodes), *then_down(state, new))
        return Review(obstacle, hsqueeze.jobs(state, new))

    return check


def _named(state: State, plan: PowerPlan) -> list[NamedPhase]:
    """The phases of a plan for a state, in names."""
    steps = named(state, plan.steps)
    return [
        NamedPhase(phase.action, state.names(phase.nodes), list(islice(steps, len(phase.steps))))
        for phase in plan.phases
    ]


def _nodes(phases: Sequence[NamedPhase], action: Action) -> list[str]:
    return [name for phase in phases if phase.action is action for name in phase.nodes]


def _left(phases: Sequence[NamedPhase], rest: Jobsets) -> list[NamedPhase]:
    """What is left of phases: as many steps as there are, which are the last ones, and the nodes that are yet
    to be marked offline, or online.
    """
    steps = [job.step for jobs in rest for job in jobs if isinstance(job.step, NamedStep)]
    left = list[NamedPhase]()
    for phase in reversed(phases):
        before = max(0, len(steps) - len(phase.steps))
        marked = hsqueeze.marked(rest, phase.action)
        nodes = [name for name in phase.nodes if name in marked]
        left.append(NamedPhase(phase.action, nodes, steps[before:]))
        steps = steps[:before]
    return left[::-1]
