"""One decision through the house: the bytes of a request in, the answer out."""

from dataclasses import dataclass

from ganeti_htools.backends import again, answer
from ganeti_htools.engine.decide import decide as decide_request
from ganeti_htools.engine.options import Options
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.derive import derive, missing_resources
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.figures import Figures
from ganeti_htools.model.request import Allocate, MultiAllocate, Request
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class Decision:
    """``answer`` is one line of JSON; ``warnings`` say what is odd about the cluster."""

    answer: str
    warnings: tuple[str, ...]


class Memory:
    """What is kept of the last request for the next. Not to be used by two decisions at once."""

    def __init__(self) -> None:
        self.texts = again.Memory()
        self.figures: Figures | None = None


def decide(data: bytes, options: Options, memory: Memory | None = None) -> Decision:
    """Decide a request, with what ``memory`` has of the last one. Raises DataError if it is wrong."""
    memory = memory or Memory()
    message = memory.texts.read(data)
    state = state_for(message.cluster, message.request, options, memory.figures)
    memory.figures = state.figures
    warnings = (*message.warnings, *missing_resources(state))
    return Decision(decide_on(state, message.request, options)[0], warnings)


def state_for(cluster: Cluster, request: Request, options: Options, known: Figures | None = None) -> State:
    """The state on which a request is decided."""
    return derive(cluster, _requested(request), options.static_kvm_node_memory, known)


def _requested(request: Request) -> tuple[Instance, ...]:
    match request:
        case Allocate(placement, _):
            return (placement.instance,)
        case MultiAllocate(placements):
            return tuple(placement.instance for placement in placements)
        case _:
            return ()


def decide_on(state: State, request: Request, options: Options) -> tuple[str, State]:
    """The answer, and the state it leads to."""
    try:
        decision = decide_request(state, request, options)
    except RequestFailed as failure:
        return answer.failure(str(failure)), state
    return answer.success(request, decision), decision.state
