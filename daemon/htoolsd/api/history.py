"""The methods ``history`` and ``why``."""

from dataclasses import asdict
from typing import Annotated, Any

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.deciding.placement_report import placement_report
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.load import LoadMode
from ganeti_htools.records import Valid
from htoolsd.history.entries import HistoryQuery, placed_at
from htoolsd.history.history import History
from htoolsd.socket.methods import Name, method
from htoolsd.socket.roles import Role
from htoolsd.sync.sync import Sync
from htoolsd.threads import ROW_BYTES, Computations, encoded, run_by_size

MAX_ENTRIES = 10_000  # in an answer

_Count = Annotated[int, Valid(f"a number from 1 to {MAX_ENTRIES}", lambda count: 0 < count <= MAX_ENTRIES)]
_BEGINNING = "its name, or the name's beginning up to a dot"


class HistoryMethods:
    """Methods about the history. They raise RefusalError."""

    def __init__(self, history: History, sync: Sync, computations: Computations) -> None:
        self._history = history
        self._sync = sync
        self._computations = computations

    @method(
        "Lists decisions, plans that were made or have ended, decisions of policies, and calls that changed"
        " something, the newest last.",
        role=Role.READ,
    )
    async def history(
        self,
        instance: Annotated[Name | None, f"only entries with this instance ({_BEGINNING})"] = None,
        node: Annotated[Name | None, "the same for a node"] = None,
        since: Annotated[
            float, Valid("seconds of the epoch"), "entries since this second of the epoch"
        ] = 0.0,
        most: Annotated[_Count, "the newest so many entries (100)"] = 100,
        id: Annotated[  # noqa: A002 (the key of entries)
            Name | None, "only the decision or plan with this id"
        ] = None,
    ) -> object:
        found = await self._history.find(HistoryQuery(instance, node, since, most, id))
        return await run_by_size(len(found) * ROW_BYTES, lambda: encoded(found))

    @method(
        "Explains why an instance is on its nodes: the decision or plan that brought it there, and the change"
        " of the score if it moved to other nodes now.",
        role=Role.READ,
    )
    async def why(
        self,
        instance: Annotated[Name, _BEGINNING],
        load: Annotated[LoadMode, "how measured load counts: none, upstream, real (hbal --load)"] = "none",
    ) -> object:
        await self._sync.poll_configuration()  # the instance may just have moved
        cluster = self._sync.model.available
        if cluster is None:
            raise RefusalError(Refusal.CLUSTER, "the cluster is not known yet")
        try:
            now = await self._computations.run(lambda _pause: placement_report(cluster, instance, load))
        except HtoolsError as error:
            raise RefusalError(Refusal.ARGUMENTS, f"why: {error}") from None
        entries = await self._history.find(HistoryQuery(instance=now.instance, most=MAX_ENTRIES))
        # An evacuation names the primary only, or both nodes.
        nodes = list(now.nodes)
        entry: Any = next(
            (each for each in reversed(entries) if list(placed_at(each, now.instance) or ()) == nodes), None
        )
        return {**asdict(now), "entry": entry}
