"""The methods ``history`` and ``why``."""

from dataclasses import asdict
from typing import Any

import trio

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.planning.placement_report import placement_report
from htoolsd.history.entries import Wanted, placed_at
from htoolsd.history.history import History
from htoolsd.socket.methods import Args, File
from htoolsd.sync.sync import Sync

MOST = 10_000  # entries in an answer


class HistoryMethods:
    """Answers from what was kept."""

    def __init__(self, history: History, sync: Sync) -> None:
        self._history = history
        self._sync = sync

    # Both raise RefusalError.

    async def history(self, args: Args, _file: File) -> object:
        names = {key: _name(args, key) for key in ("instance", "node")}
        since, most = args.get("since", 0.0), args.get("most", 100)
        if isinstance(since, bool) or not isinstance(since, int | float):
            raise RefusalError(Refusal.ARGUMENTS, "history: since: expected seconds of the epoch")
        if isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MOST:
            raise RefusalError(Refusal.ARGUMENTS, f"history: most: expected a number from 1 to {MOST}")
        return await self._history.find(Wanted(**names, since=float(since), most=most))

    async def why(self, args: Args, _file: File) -> object:
        name = _name(args, "instance")
        if name is None:
            raise RefusalError(Refusal.ARGUMENTS, "why: instance: expected a name")
        await self._sync.poll_configuration()  # so that what has just been moved is seen where it is
        cluster = self._sync.model.cluster
        if cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet")
        try:
            now = await trio.to_thread.run_sync(placement_report, cluster, name, abandon_on_cancel=True)
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, f"why: {error}") from None
        told = await self._history.find(Wanted(instance=now.instance, most=MOST))
        # An evacuation names the primary only, or both nodes.
        entry: Any = next(
            (each for each in reversed(told) if list(placed_at(each, now.instance) or ()) == list(now.nodes)),
            None,
        )
        return {**asdict(now), "entry": entry}


def _name(args: Args, key: str) -> str | None:
    name = args.get(key)
    if name is not None and (not isinstance(name, str) or not name):
        raise RefusalError(Refusal.ARGUMENTS, f"{key}: expected a name")
    return name
