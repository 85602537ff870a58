"""Instances on storage that every node sees, if balancing moves no others.

Such an instance only adds to a few columns of its node, or takes from them, whatever else the node has. Its
effect on the score is known beforehand for components of the forms that :func:`check_components` requires.
Everything follows from :mod:`ganeti_htools.engine.rules.resources` and
:mod:`ganeti_htools.engine.rules.components`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.class_limits import refused_amounts
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT, LOST, SPREAD, Component
from ganeti_htools.engine.rules.limits import PRIMARY
from ganeti_htools.engine.rules.resources import RESOURCES
from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, SINGLE, Bools, Floats, Ints, availability
from ganeti_htools.model.state import State

# The columns that a primary on shared storage may change, which are sums.
SUMS = frozenset(
    view
    for resource in RESOURCES
    if PRIMARY in resource.roles and resource.is_sum
    for view in resource.views(SINGLE, forthcoming=False)
)


def check_components(components: Iterable[Component]) -> None:
    """Check that the effect of primaries on each component is known beforehand.

    A spread is proportional to one column that primaries change. Other components depend on changing columns
    only, those of offline nodes on the number of primaries only. Raises ValueError with the names of other
    components.
    """
    wrong = [each.name for each in components if not _is_foreseeable(each)]
    if wrong:
        raise ValueError(f"balancing of shared storage does not know what changes {', '.join(wrong)}")


def _is_foreseeable(component: Component) -> bool:
    sums = SUMS.intersection(component.figures)
    match component.aggregate:
        case aggregate if aggregate is SPREAD:
            return not sums or (component.proportional and len(sums) == 1)
        case aggregate if aggregate is LOST and not sums <= {"primaries"}:
            return False
    try:
        component.formula(None, *(False for _ in component.figures))
    except AttributeError:  # the formula reads other columns
        return not sums and "fail_n1" not in component.figures
    return True


check_components(COMPONENTS)
# Sums over the online nodes that may change.
COUNTS = [
    each for each in COMPONENTS if each.aggregate is COUNT and {"fail_n1", *SUMS}.intersection(each.figures)
]
# Part of the score of one instance on an offline node.
PER_LOST: float = sum(
    each.weight * each.formula(None, *(figure == "primaries" for figure in each.figures))
    for each in COMPONENTS
    if each.aggregate is LOST
)


@dataclass(frozen=True, slots=True)
class SharedInstances:
    """The instances that move (``rows``, a ``batch``), all on storage that every node sees.

    * ``changes``: the amounts that each instance adds to columns of its node, and to ``unallocated``; without
      columns that no instance changes, and without aliases.
    * ``alike``: numbers of equal instances, which change the same and may go to the same nodes.
    * ``reach``: the nodes that see the pools of each instance and give its amounts (instances by nodes), None
      if all do.
    """

    facts: NodeFacts
    batch: Batch | None
    rows: Ints
    changes: dict[str, Floats]
    alike: Ints
    reach: Bools | None


def shared_instances(state: State, movable: Bools) -> SharedInstances | None:
    """Collect the instances that balancing would move.

    None if some are on other storage, or if rules apply to them that need more columns than :data:`SUMS`.
    """
    columns, cluster = state.columns, state.cluster
    if (
        state.forthcoming.any()
        or columns.excl_stor.any()
        or state.allowed_migrations is not None
        or state.rules is not None
        or state.tag_rows
        or state.location_rows
        or any(tag.startswith(tags.DESIRED_LOCATION) for tag in cluster.tags)
    ):
        return None
    auto = np.array([instance.auto_balance for instance in cluster.instances], np.bool_)
    # Pools decide where an instance may go, not what it changes there.
    batches, facts = batches_of(replace(state, wants=np.zeros_like(state.wants)), movable & auto)
    facts = replace(facts, state=state)
    if not batches:
        nobody = np.zeros(0, np.int64)
        return SharedInstances(facts, None, nobody, {}, nobody, None)
    batch = batches[0]
    if len(batches) > 1 or (state.snode[batch.rows] != NOWHERE).any():
        return None
    added = _added(state, batch)
    if not added.keys() <= {*SUMS, "unallocated"}:
        return None
    changes = {figure: amounts for figure, amounts in added.items() if figure not in columns.aliases}
    reach = _reach(state, batch.rows)
    traits = [*changes.values(), *([] if reach is None else reach.T.astype(np.float64))]
    alike = np.unique(np.array(traits), axis=1, return_inverse=True)[1].ravel()
    return SharedInstances(facts, batch, batch.rows, changes, alike, reach)


def _reach(state: State, rows: Ints) -> Bools | None:
    """Find the nodes that see all pools of each instance and give its amounts; None if all do."""
    units, shape = len(state.units.local), state.columns.shape
    if not (shape.pools or shape.limited):
        return None
    wanted, blind = state.wants[rows][:, units:], ~availability(state.columns)[units:]
    return np.asarray(~((wanted[:, :, np.newaxis] & blind).any(axis=1) | refused_amounts(state, rows)))


def _added(state: State, batch: Batch) -> dict[str, Floats]:
    """Compute the non-zero changes of an empty node by each instance, by figure; always with memory."""
    nothing = np.zeros(len(batch.rows), np.int64)
    changing = state.columns.changing()
    empty = state.columns.take(state.pnode[batch.rows]).changed(**dict.fromkeys(changing, nothing))
    came, _ = node_rules.add_primary(empty, batch.asked, 0, 0, force=True)
    added = {figure: getattr(came, figure) for figure in changing if figure != "fail_n1"}
    added["unallocated"] = came.unallocated - empty.unallocated
    return {
        figure: np.asarray(each, np.float64)
        for figure, each in added.items()
        if figure == "unallocated" or np.any(each)
    }


def regular(state: State, scope: Bools) -> bool:
    """Whether an online node in scope exists, and all report figures that can be divided by."""
    columns = state.columns
    divisors = {name for component in COMPONENTS for name in component.divisors}
    figures = np.array([getattr(columns, name) for name in divisors])[:, scope & ~columns.offline]
    return bool(figures.size and (figures > 0).all())
