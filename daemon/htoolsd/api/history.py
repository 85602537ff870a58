"""The methods ``history`` and ``why``."""

from dataclasses import asdict
from typing import Any

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.placement_report import placement_report
from htoolsd.history.entries import HistoryQuery, placed_at
from htoolsd.history.history import History
from htoolsd.socket.methods import Args, File, method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import Computations

MAX_ENTRIES = 10_000  # in an answer


class HistoryMethods:
    """Methods about the history. They raise RefusalError."""

    def __init__(self, history: History, sync: Sync, computations: Computations) -> None:
        self._history = history
        self._sync = sync
        self._computations = computations

    @method(
        "Lists decisions, plans that were made or have ended, decisions of policies, and calls that changed"
        " something, the newest last.",
        {
            "instance": "only entries with this instance (its name, or the name's beginning up to a dot);"
            " optional",
            "node": "the same for a node; optional",
            "since": "only entries since this time, in seconds of the epoch; optional",
            "most": "the newest so many entries (100); optional",
        },
        role=Role.READ,
    )
    async def history(self, args: Args, _file: File) -> object:
        names = {key: _name("history", args, key) for key in ("instance", "node")}
        since, most = args.get("since", 0.0), args.get("most", 100)
        if isinstance(since, bool) or not isinstance(since, int | float):
            raise RefusalError(Refusal.ARGUMENTS, "history: since: expected seconds of the epoch")
        if isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MAX_ENTRIES:
            raise RefusalError(Refusal.ARGUMENTS, f"history: most: expected a number from 1 to {MAX_ENTRIES}")
        return await self._history.find(HistoryQuery(**names, since=float(since), most=most))

    @method(
        "Explains why an instance is on its nodes: the decision or plan that brought it there, and the change"
        " of the score if it moved to other nodes now.",
        {"instance": "the instance's name, or its beginning up to a dot"},
        role=Role.READ,
    )
    async def why(self, args: Args, _file: File) -> object:
        name = _name("why", args, "instance")
        if name is None:
            raise RefusalError(Refusal.ARGUMENTS, "why: instance: expected a name")
        await self._sync.poll_configuration()  # the instance may just have moved
        cluster = self._sync.model.available
        if cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet")
        try:
            now = await self._computations.run(lambda _pause: placement_report(cluster, name))
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, f"why: {error}") from None
        entries = await self._history.find(HistoryQuery(instance=now.instance, most=MAX_ENTRIES))
        # An evacuation names the primary only, or both nodes.
        nodes = list(now.nodes)
        entry: Any = next(
            (each for each in reversed(entries) if list(placed_at(each, now.instance) or ()) == nodes), None
        )
        return {**asdict(now), "entry": entry}


def _name(method: str, args: Args, key: str) -> str | None:
    name = args.get(key)
    if name is not None and (not isinstance(name, str) or not name):
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: {key}: expected a name")
    return name
