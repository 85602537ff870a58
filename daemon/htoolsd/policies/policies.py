"""Policies at work: when they look at the cluster.

A timer, somebody who asks, and events of the cluster all end in one place, where one thing is considered
after the other, in one order. What a plan takes of the budgets is on disk before it begins.
"""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import structlog
import trio

from ganeti_htools.execution.run import Ending
from ganeti_htools.planning.proposal import Proposal
from htoolsd.plans.plan import Plan
from htoolsd.plans.plans import Plans
from htoolsd.policies.deciding import Deciding
from htoolsd.policies.decision import Decision
from htoolsd.policies.judging import Judging
from htoolsd.policies.kept import Kept
from htoolsd.policies.order import ORDER, POLICIES
from htoolsd.policies.settings import Settings
from htoolsd.policies.telling import shortly, told
from htoolsd.policies.watching import Watch
from htoolsd.sync.following import Sync

_log = structlog.get_logger()

_LAST = 2.0  # seconds for the last write


class Policies:
    """All policies. What they remember is in the file at ``path``; ``note`` is told of each decision."""

    def __init__(
        self,
        path: str,
        sync: Sync,
        plans: Plans,
        settings: Mapping[str, Settings],
        note: Callable[[Decision], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kept = Kept(path, POLICIES)
        self._settings = dict(settings)
        self._clock = clock
        self._due = dict.fromkeys(POLICIES, inf)
        self._triggers: dict[str, str] = {}
        self._news = trio.Event()
        self._judging = Judging(self._kept, sync, plans, self._settings, clock)
        self._deciding = Deciding(self._judging, self._kept, sync, plans, self._settings, note, clock)
        self._watch = Watch(sync, self._kept, self._active, self.want, self._longest, clock)

    def limit(self, settings: Mapping[str, Settings]) -> None:
        """Heed these settings from now on."""
        changed = [name for name in POLICIES if settings[name] != self._settings[name]]
        self._settings.update(settings)
        for name in changed:
            self._schedule(name)
        self._news.set()

    def want(self, name: str, trigger: str) -> None:
        """Have a policy considered at once, unless it is off; ``trigger`` says why."""
        if name in self._active():
            self._triggers.setdefault(name, trigger)
            self._news.set()

    def forget_failures(self, name: str) -> None:
        """Have a policy go on that plans which failed have switched off."""
        self._kept.known.memories[name].forget_failures()
        self._save_soon()

    def ended(self, plan: Plan) -> None:
        """Count a plan of a policy that has ended: whether it failed."""
        name = str(plan.facts.get("policy"))
        if name not in POLICIES or plan.ended is None:
            return
        self._deciding.ended(plan)
        memory = self._kept.known.memories[name]
        if plan.run.ending is Ending.DONE:
            memory.forget_failures()
        elif plan.run.ending in (Ending.FAILED, Ending.LOST):
            memory.fail(self._settings[name], self._clock(), plan.error or "for no known reason")
            self._tell_if_off(name)
        self._save_soon()

    def _tell_if_off(self, name: str) -> None:
        memory = self._kept.known.memories[name]
        if memory.off(self._settings[name]):
            _log.error("policy switched off", policy=name, failed=memory.failed, error=memory.error)

    def status(self) -> list[dict[str, Any]]:
        """Each policy: its mode, what it decided last, when it is considered next, what its budgets leave."""
        return [self._told(name) for name in POLICIES]

    def health(self) -> list[dict[str, Any]]:
        """Each policy in short."""
        memories, now = self._kept.known.memories, self._clock()
        return [
            shortly(name, self._settings[name], memories[name], self._deciding.last(name), now)
            for name in POLICIES
        ]

    def _told(self, name: str) -> dict[str, Any]:
        memory, now = self._kept.known.memories[name], self._clock()
        wait = self._due[name] - trio.current_time()
        due = now + wait if wait < inf else None
        return told(name, self._settings[name], memory, self._deciding.last(name), due, now)

    async def explain(self, name: str) -> dict[str, Any]:
        """What a policy would do now in each group, and which conditions hold it back. Raises HtoolsError."""
        groups = await self._judging.explained(name)
        return {**self._told(name), "groups": groups}

    async def again(self, facts: Mapping[str, Any]) -> Proposal:
        """A plan that a policy of an earlier daemon has made, made once more. Raises HtoolsError."""
        return await self._judging.again(facts)

    async def run(self) -> None:
        """Consider policies when they are due, until cancelled."""
        await self._kept.recall()
        for name in POLICIES:
            self._schedule(name)
        for name in self._active():
            self._tell_if_off(name)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch.run)
                while True:
                    await self._round()
        finally:
            with trio.move_on_after(_LAST, shield=True):
                await self._kept.save_if_possible()

    def _active(self) -> list[str]:
        return [name for name in POLICIES if self._settings[name].mode != "off"]

    def _longest(self) -> float:
        return max(settings.cool_down_seconds for settings in self._settings.values())

    def _schedule(self, name: str) -> None:
        period = self._settings[name].every_seconds
        self._due[name] = trio.current_time() + period if name in self._active() else inf

    def _save_soon(self) -> None:
        self._kept.unsaved = True
        self._news.set()

    async def _round(self) -> None:
        """Wait until something is due, and consider what is, in order."""
        with trio.move_on_at(min(self._due.values())):
            await self._news.wait()
        self._news = trio.Event()
        due = {}
        for name in POLICIES:
            trigger = self._triggers.pop(name, None)
            if self._due[name] <= trio.current_time():
                trigger = trigger or "timer"
                self._schedule(name)
            if trigger is not None and name in self._active():
                due[name] = trigger
        taken: dict[str, str] = {}
        for remedy in ORDER:
            if remedy.policy in due:
                await self._deciding.consider(remedy, due[remedy.policy], taken)
        await self._kept.save_if_possible()
