"""One notion of health: the words for a group and the counts of hcheck agree."""

from hypothesis import given, settings

from ganeti_htools.engine.groups.diagnosis import diagnose
from ganeti_htools.engine.redundancy.health import health
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.state import State
from tests.property.narrow import cases


@settings(max_examples=20)
@given(case=cases)
def test_group_is_healthy_exactly_if_hcheck_counts_nothing(case: tuple[State, Instance]) -> None:
    """Where all nodes are online: hcheck also counts offline nodes without instances."""
    state, _ = case
    for row in sorted(set(state.group.tolist())):
        scope = state.group == row
        word = diagnose(state, scope, unrecoverable(state, scope)).word
        counts = health(state, scope).counts
        if not state.columns.offline.any():
            assert (word == "healthy") is not any(counts), (word, counts)
        elif not any(counts):
            assert word in (
                "healthy",
                "not redundant",
            )  # drained nodes take instances in hcheck's counts only
