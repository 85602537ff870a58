"""The rest of a plan of ``hsqueeze``, looked at again on a cluster that may have changed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from ganeti_htools.engine.balancing.recheck import NamedStep
from ganeti_htools.engine.squeezing import recheck
from ganeti_htools.engine.squeezing.power_plan import Action, PowerPlan
from ganeti_htools.engine.squeezing.recheck import NamedPhase
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.state import State
from ganeti_htools.planning import hsqueeze, view
from ganeti_htools.planning.hsqueeze import Options
from ganeti_htools.planning.power_reserve import kept_free
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
    action, nodes, enough = found.action, planned.names(found.nodes), found.enough
    powered: set[str] = set()
    said: set[str] = set()

    def say_without_power(state: State) -> None:
        """Say once of nodes that nobody can power on or off that this is so."""
        rows = [state.cluster.nodes[state.nodes[name]] for name in nodes if name in state.nodes]
        names = [row.name for row in rows if row.powered is None and row.name not in said]
        said.update(names)
        if names:
            say(f"No out-of-band program for {', '.join(names)}: the power is left as it is")

    def check(cluster: Cluster, rest: Jobsets, _made: int) -> Review:
        nonlocal action, nodes, enough
        state = hsqueeze.seen(replace(cluster, standby=cluster.standby or planned.cluster.standby), options)
        say_without_power(state)
        minimum, target = (kept_free(state, factor, options.allowed) for factor in options.factors)
        wanted = target if action is Action.OFFLINE else minimum if enough else None
        left = [node for node in nodes if node in hsqueeze.marked(rest)]
        if action is Action.OFFLINE and not left:
            return Review()  # they are offline already
        if action is Action.ONLINE and not left:
            powered.update(nodes)
        movable = view.movable(state, options.view)
        obstacle = recheck.obstacle(state, action, _phases_left(rest), wanted, movable)
        if obstacle is None:
            return Review()
        new = replanned(
            obstacle, on_change, say, watched, lambda progress: hsqueeze.plan(state, options, progress)
        )
        if new is None:
            return Review(obstacle)
        action, nodes, enough = new.action, state.names(new.nodes), new.enough
        vainly = powered.intersection(nodes) if action is Action.ONLINE else ()
        if vainly:
            return Review(f"powered up, but still offline or drained: {', '.join(sorted(vainly))}")
        say(hsqueeze.TITLES[action], *nodes)
        return Review(obstacle, hsqueeze.jobs(state, new))

    return check


def _phases_left(rest: Jobsets) -> list[NamedPhase]:
    """The phases that are left. One that powers nodes down ends when they are marked offline; nodes that are
    powered up are marked online before all moves.
    """
    phases, steps = list[NamedPhase](), list[NamedStep]()
    for jobs in rest:
        steps += [job.step for job in jobs if isinstance(job.step, NamedStep)]
        if nodes := hsqueeze.marked([jobs]):
            phases.append(NamedPhase(nodes, steps))
            steps = []
    return [*phases, NamedPhase([], steps)]
