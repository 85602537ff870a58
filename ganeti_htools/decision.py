"""One decision through the house: the bytes of a request in, the answer out."""

from collections.abc import Sequence
from dataclasses import dataclass

from ganeti_htools.backends import answer, iallocator
from ganeti_htools.engine.decide import decide as decide_on
from ganeti_htools.engine.options import Options
from ganeti_htools.model import request as wanted
from ganeti_htools.model.cluster import Cluster, Instance, Load, with_loads
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import State, derive, missing_resources


@dataclass(frozen=True, slots=True)
class Decision:
    """``answer`` is one line of JSON, ``warnings`` are lines for stderr, the states before and after."""

    answer: str
    warnings: tuple[str, ...]
    before: State
    after: State


def derived(cluster: Cluster, request: wanted.Request, options: Options) -> State:
    """The state on which a request is decided."""
    if options.ignore_dynamic:
        none = Load(0.0, 0.0, 0.0, 0.0)
        cluster = with_loads(cluster, {row.name: none for row in cluster.instances})
    return derive(cluster, requested(request), options.static_kvm_node_memory)


def requested(request: wanted.Request) -> tuple[Instance, ...]:
    """The new instances a request is about."""
    match request:
        case wanted.Allocate(placement, _):
            return (placement.instance,)
        case wanted.MultiAllocate(placements):
            return tuple(placement.instance for placement in placements)
        case _:
            return ()


def decide(data: bytes, options: Options) -> Decision:
    """Decide a request. Raises DataError if it cannot be understood."""
    message = iallocator.read(data)
    state = derived(message.cluster, message.request, options)
    return on_state(state, message.request, options, message.warnings)


def on_state(state: State, request: wanted.Request, options: Options, warnings: Sequence[str] = ()) -> Decision:
    """Decide what was read."""
    lines = (*warnings, *missing_resources(state))
    try:
        decision = decide_on(state, request, options)
    except RequestFailed as failure:
        return Decision(answer.failure(str(failure)), lines, state, state)
    return Decision(answer.success(request, decision), lines, state, decision.state)
