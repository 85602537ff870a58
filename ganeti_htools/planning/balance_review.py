"""The rest of a plan of ``hbal``, looked at again on a cluster that may have changed."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.recheck import obstacle
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.execution.review import Check, Review
from ganeti_htools.execution.wording import Say
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import NamedStep
from ganeti_htools.model.state import State
from ganeti_htools.planning import hbal, view
from ganeti_htools.planning.hbal import Options
from ganeti_htools.planning.proposal import OnChange, Progress, replanned, unwatched


def reviewer(
    options: Options,
    groups: Sequence[str],
    on_change: OnChange,
    say: Say,
    watched: Callable[[], AbstractContextManager[Progress]] = unwatched,
) -> Check:
    """A function that checks the rest of a plan for node groups, given by their names.

    Where the rest does not fit, it says so, and plans anew if ``on_change`` allows it, from the first group
    on in which something is left to be done.
    """

    def check(cluster: Cluster, rest: Jobsets, made: int) -> Review:
        state = view.state_of(cluster, options.view)
        scopes = {
            name: state.group == view.group(state, name, f"node group {name} is gone") for name in groups
        }
        after, movable = state.copy(), view.movable(state, options.view)
        steps = [job.step for jobs in rest for job in jobs if isinstance(job.step, NamedStep)]
        left = _by_group(state, groups, steps)
        why = None
        for name, those in left.items():
            scope = scopes[name]
            why = obstacle(after, scope, those, options.balancing, movable)
            if why is None and not score_of(after, scope) < score_of(state, scope):
                why = "the rest of it would not improve the score any more"
            if why is not None:
                break
        if why is None:
            return Review()
        ahead = list(scopes.items())[min(map(list(scopes).index, left)) :]

        def again(progress: Progress) -> Sequence[hbal.GroupPlan]:
            def balance(start: State, _name: str, scope: Bools, options: Options) -> hbal.Balanced:
                return hbal.plan(start, scope, options, say, progress)

            return list(hbal.in_turn(state, ahead, hbal.rest_of(options, made), balance))

        new = replanned(why, on_change, say, watched, again)
        return Review(why, None if new is None else hbal.jobs(new, options))

    return check


def _by_group(state: State, groups: Sequence[str], steps: Iterable[NamedStep]) -> dict[str, list[NamedStep]]:
    """Steps by the group that their instance is in. Steps of an instance that is in none of these groups any
    more stand with those before them: there they cannot be made.
    """
    homes = {
        instance.name: state.cluster.groups[group].name
        for instance, group in zip(state.cluster.instances, state.group[state.pnode].tolist(), strict=True)
    }
    found: dict[str, list[NamedStep]] = {}
    group = groups[0]
    for step in steps:
        home = homes.get(step.instance, group)
        group = home if home in groups else group
        found.setdefault(group, []).append(step)
    return found
