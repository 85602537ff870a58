"""Solutions in the words of Ganeti's htools: ganeti and its users search for them."""

import math

from ganeti_htools.engine.allocation.solution import GroupOutcome, Metric, Solution
from ganeti_htools.model.state import State
from ganeti_htools.model.types import Fail


def solution_line(state: State, solution: Solution) -> str:
    """Describe the chosen place with its score, or the reasons against all places."""
    order = [fail for fail in Fail if fail in solution.failures]
    reasons = ", ".join(f"{fail.value}: {solution.failures[fail]}" for fail in order)
    if solution.trial is None:
        return f"No valid allocation solutions, failure reasons: {reasons or 'unknown reasons'}"
    names = "/".join(state.names(solution.nodes))
    return (
        f"score: {_metric(solution.metric)}, successes {solution.successes},"
        f" failures {sum(solution.failures.values())} ({reasons}) for node(s) {names}"
    )


def _metric(metric: float | Metric) -> str:
    if isinstance(metric, tuple):
        lost, disk = metric
        return f"([{','.join(map(str, lost))}],{disk})"
    if not math.isfinite(metric):
        return "NaN" if math.isnan(metric) else "Infinity"
    return f"{metric:.8f}"


def outcome_line(state: State, outcome: GroupOutcome, instance: str) -> str:
    group = state.cluster.groups[outcome.group]
    if outcome.unconnected:
        return f"group {group.name} is not connected to a network required by instance {instance}"
    if outcome.solution is not None:
        line = solution_line(state, outcome.solution)
        return f"Group {group.name} ({group.alloc_policy.value}): {line}"
    return f"Group {group.name}: error {outcome.error}"
