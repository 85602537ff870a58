"""The methods of the daemon that programs call, as steps (:mod:`.calls`). All raise HtoolsError."""

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, Literal

from ganeti_htools.client.answers import DecisionAnswer, PlanAnswer, PlanSummary, StatusAnswer
from ganeti_htools.client.calls import PATIENCE, Steps, asking, default_socket

PLANNING = 3600.0  # seconds; a plan of an earlier daemon is made again before it is executed


class DaemonAddress:
    """Address of the daemon: the path of its socket."""

    def __init__(self, path: str = "") -> None:
        self.path = path or default_socket()


def call(
    daemon: DaemonAddress,
    /,
    method: str,
    arguments: Mapping[str, object] | None = None,
    patience: float = PATIENCE,
) -> Steps[Any]:
    """Call any method (``htoolsctl methods``); it may take ``patience`` seconds."""
    return asking(daemon.path, method, arguments or {}, patience=patience)


def status(daemon: DaemonAddress, /) -> Steps[StatusAnswer]:
    """Return the state of the daemon and of the cluster."""
    return call(daemon, "status")


def decide(
    daemon: DaemonAddress,
    /,
    request: Mapping[str, object] | str | IO[bytes],
    arguments: Sequence[str] = (),
    claim: bool = False,
    patience: float = 60.0,
) -> Steps[DecisionAnswer]:
    """Decide a request to iallocators: an object, its text, or an open file.

    ``arguments`` are the options --KEY=VALUE of hail(1). With ``claim`` the resources are reserved.
    """
    wishes: dict[str, object] = {"arguments": list(arguments), "claim": claim}
    if not isinstance(request, Mapping | str):
        return asking(daemon.path, "decide", wishes, request.fileno(), patience)
    wishes["request"] = request if isinstance(request, str) else json.dumps(request)
    return asking(daemon.path, "decide", wishes, patience=patience)


def plan(
    daemon: DaemonAddress,
    /,
    tool: str,
    options: Mapping[str, object] | None = None,
    generations: Mapping[str, int] | None = None,
    patience: float = PLANNING,
) -> Steps[PlanAnswer]:
    """Plan as a tool does; nothing is changed. ``htoolsctl methods`` lists the tools and their options.

    ``generations`` are those of the cluster to plan for, from the method ``cluster``; else the newest.
    """
    wishes = {"tool": tool, "options": options or {}, "generations": generations}
    return call(daemon, "plan", wishes, patience)


def maintenance(
    daemon: DaemonAddress,
    /,
    action: Literal["start", "offline", "online", "end"],
    nodes: Sequence[str],
    **options: object,
) -> Steps[PlanAnswer]:
    """Plan how maintenance of nodes begins or ends, with more options of ``hmaintain`` as in :func:`plan`."""
    return plan(daemon, "hmaintain", {"action": action, "nodes": list(nodes), **options})


def execute(
    daemon: DaemonAddress,
    /,
    plan: str,
    on_change: Literal["replan", "stop"] | None = None,
    wait_for_nodes: bool | None = None,
    parallel: int | None = None,
    patience: float = PLANNING,
) -> Steps[PlanSummary]:
    """Begin to carry out the plan of this id, and do not wait for its end.

    Other options than None take the place of those that the plan was made with: what is done if the cluster
    has changed, whether to wait for nodes that do not report, and how many unfinished jobs there may be.
    """
    options = {"on_change": on_change, "wait_for_nodes": wait_for_nodes, "parallel": parallel}
    wishes = {"plan": plan} | {name: value for name, value in options.items() if value is not None}
    return call(daemon, "execute", wishes, patience)


def cancel(daemon: DaemonAddress, /, plan: str, now: bool = False) -> Steps[PlanSummary]:
    """Stop the plan after the jobs under way, or ``now``; then these go on in Ganeti."""
    return call(daemon, "cancel", {"plan": plan, "now": now})
