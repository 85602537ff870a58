"""Changes in the cluster, watched for policies: moves are noted, and events have policies look at once."""

from collections.abc import Callable, Sequence

import trio

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from htoolsd.policies.changes import back, events, lost, moved
from htoolsd.policies.kept import Kept
from htoolsd.sync.following import Sync
from htoolsd.sync.model import Model

_EVERY = 5.0  # seconds between looks at what has changed


class Watch:
    """Notes what has moved or come back, and forgets it after ``longest`` seconds. For policies that are
    ``active`` (which are) there are events; ``want`` has one considered, and is told why.
    """

    def __init__(
        self,
        sync: Sync,
        kept: Kept,
        active: Callable[[], Sequence[str]],
        want: Callable[[str, str], None],
        longest: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._sync = sync
        self._kept = kept
        self._active = active
        self._want = want
        self._longest = longest
        self._clock = clock
        self._seen = sync.model
        self._lost: set[str] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await trio.sleep(_EVERY)
            if self._sync.model.cluster is not self._seen.cluster:
                before, self._seen = self._seen, self._sync.model
                if before.cluster is not None and self._seen.cluster is not None:
                    self._note(before.cluster, self._seen.cluster)
                if active := self._active():
                    for event in await self._news(before):
                        for name in active:
                            self._want(name, event)
                    await self._kept.save_if_possible()

    async def _news(self, before: Model) -> list[str]:
        """What has happened since the last look."""
        if self._seen.cluster is None:
            return []
        told = [] if before.cluster is None else list(events(before, self._seen))
        try:
            now = await trio.to_thread.run_sync(lost, self._seen.cluster, abandon_on_cancel=True)
        except HtoolsError:
            return told  # told when a policy is considered
        told += (f"group {group} has lost N+1" for group in sorted(now - self._lost))
        self._lost = now
        return told

    def _note(self, before: Cluster, now: Cluster) -> None:
        known, when = self._kept.known, self._clock()
        moves, nodes = dict.fromkeys(moved(before, now), when), dict.fromkeys(back(before, now), when)
        if moves or nodes:
            known.forget(when - self._longest())
            known.moved |= moves
            known.switched |= nodes
            self._kept.unsaved = True
