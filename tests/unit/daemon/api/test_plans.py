"""What can be asked about plans, without sockets."""

import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from ganeti_htools.client.plan_changes import LONGEST
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.planning.tools import TOOLS
from htoolsd.api.plans import PlanMethods
from htoolsd.plans.plan import PlanState
from htoolsd.plans.plans import Plans
from htoolsd.socket.peer import Credentials, caller
from tests.support.memory_ganeti import following, ganeti
from tests.support.plan_methods import plan_methods
from tests.support.settings import unjudged
from tests.support.worlds import delay, migrate


@asynccontextmanager
async def planning(tmp_path: Path) -> AsyncIterator[tuple[PlanMethods, Plans]]:
    """The methods of a daemon that knows the cluster, and its plans."""
    caller.set(Credentials(pid=1, uid=2, gid=3))
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(2)
        plans = Plans(str(tmp_path), sync, sync.events, unjudged())
        yield plan_methods(plans, sync), plans


@asynccontextmanager
async def known(tmp_path: Path) -> AsyncIterator[PlanMethods]:
    """The methods of a daemon that knows the cluster."""
    async with planning(tmp_path) as (methods, _):
        yield methods


async def made(methods: PlanMethods) -> Any:
    return await methods.plan({"tool": "hbal"}, None)


async def test_makes_and_records_a_plan(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with known(tmp_path) as methods:
        plan = await made(methods)
        assert (plan["tool"], plan["state"], plan["by"]) == ("hbal", "planned", {"uid": 2, "pid": 1})
        assert (tmp_path / f"{plan['id']}.json").exists()
        listed: Any = await methods.plans({}, None)
        assert [each["id"] for each in listed] == [plan["id"]]


def listed(plans: Plans) -> list[tuple[int, int | None]]:
    """Return the users whose plans are being made or wait, each with the user ahead."""
    told = plans.turn.status()
    return [(each["by"]["uid"], each["behind"] and each["behind"]["by"]["uid"]) for each in told]


async def test_plans_of_who_may_act_are_made_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    tool: Any = TOOLS["hbal"]

    def plan_later(*given: Any) -> Any:
        gate.wait()
        return tool.plan(*given)

    monkeypatch.setitem(TOOLS, "hbal", replace(tool, plan=plan_later))
    async with planning(tmp_path) as (methods, plans):

        async def plan(uid: int) -> None:
            caller.set(Credentials(pid=1, uid=uid, gid=3))
            await made(methods)

        async with trio.open_nursery() as nursery:
            leaving = trio.CancelScope()

            async def leave() -> None:
                with leaving:
                    await plan(30)

            for each in (partial(plan, 20), leave, partial(plan, 21), partial(plan, 1), partial(plan, 2)):
                nursery.start_soon(each)
                await trio.testing.wait_all_tasks_blocked()
            assert listed(plans) == [(20, None), (1, 20), (2, 1), (30, 2), (21, 30)]
            leaving.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert listed(plans) == [(20, None), (1, 20), (2, 1), (21, 2)]
            gate.set()
        assert [plan.facts["by"]["uid"] for plan in plans.all] == [20, 1, 2, 21]
        assert listed(plans) == []


async def test_stop_ends_plans_that_are_made_or_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, refusals = threading.Event(), list[Refusal]()
    tool: Any = TOOLS["hbal"]
    monkeypatch.setitem(TOOLS, "hbal", replace(tool, plan=lambda *_: gate.wait()))
    async with planning(tmp_path) as (methods, plans):

        async def refused() -> None:
            with pytest.raises(RefusalError) as found:
                await made(methods)
            refusals.append(found.value.kind)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused)
            nursery.start_soon(refused)
            await trio.testing.wait_all_tasks_blocked()
            plans.turn.stop()
        await refused()
        gate.set()
    assert refusals == [Refusal.STOPPING] * 3


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"optimise": 1e9}, "a search of 1e+09 s; expected at most 600 s"),
        ({"optimise": 601, "front": 3}, "a search of 601 s; expected at most 600 s"),
    ],
)
async def test_refuses_long_searches(
    autojump_clock: MockClock, tmp_path: Path, options: Any, refused: str
) -> None:
    async with known(tmp_path) as methods:
        with pytest.raises(
            RefusalError, match=re.escape(f"hbal: {refused} ([plans] longest_search_seconds)")
        ):
            await methods.plan({"tool": "hbal", "options": options}, None)


async def test_refuses_to_plan_with_figures_older_than_the_instances(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    caller.set(Credentials(pid=1, uid=2, gid=3))
    async with ganeti() as luxid, following(luxid) as sync:
        await trio.sleep(2)
        methods = plan_methods(Plans(str(tmp_path), sync, sync.events, unjudged()), sync)
        luxid.hung = True
        luxid.jobs.submit([[delay(500)], [migrate("mirrored")]])
        await trio.sleep(6)
        why = r"^figures of one, two are older than their instances: no answer within 10 s$"
        with pytest.raises(RefusalError, match=why):
            await made(methods)
        luxid.hung = False
        await trio.sleep(300)
        assert (await made(methods))["state"] == "planned"


async def test_finds_a_plan_by_the_beginning_of_its_id(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with known(tmp_path) as methods:
        plan = await made(methods)
        found: Any = await methods.follow({"plan": plan["id"][:6]}, None)
        assert found["id"] == plan["id"]


async def test_follow_returns_after_its_limit(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with known(tmp_path) as methods:
        plan = await made(methods)
        began = trio.current_time()
        await methods.follow({"plan": plan["id"], "serial": plan["serial"]}, None)
        assert trio.current_time() - began == pytest.approx(LONGEST)


TOOL = "^plan: tool: expected harep or hbal or hmaintain or hregroup or"


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ({}, Refusal.ARGUMENTS, TOOL),
        ({"tool": "hspace"}, Refusal.ARGUMENTS, TOOL),
        ({"tool": ["hbal"]}, Refusal.ARGUMENTS, TOOL),
        ({"tool": "hbal", "options": []}, Refusal.ARGUMENTS, "options: expected an object"),
        ({"tool": "hbal", "options": "-l3"}, Refusal.ARGUMENTS, "options: expected an object"),
        ({"tool": "hbal", "options": {"colour": 1}}, Refusal.ARGUMENTS, "colour: no such option, expected"),
        (
            {"tool": "hbal", "options": {"target_resources": 1}},
            Refusal.ARGUMENTS,
            "target_resources: no such",
        ),
        (
            {"tool": "hbal", "options": {"offline": "one"}},
            Refusal.ARGUMENTS,
            "offline: expected a list of str",
        ),
        (
            {"tool": "hbal", "options": {"offline": ["nowhere"]}},
            Refusal.ARGUMENTS,
            "wrong node name.* nowhere",
        ),
        ({"tool": "hbal", "options": {"group": "x" * 70_000}}, Refusal.ARGUMENTS, "longer than 65536"),
        ({"tool": "hbal", "generations": {"nodes": 7}}, Refusal.CLUSTER, "is not known yet, or has changed"),
    ],
)
async def test_refuses_plans_that_cannot_be_made(
    autojump_clock: MockClock, tmp_path: Path, args: dict[str, object], kind: Refusal, text: str
) -> None:
    async with known(tmp_path) as methods:
        with pytest.raises(RefusalError, match=text) as caught:
            await methods.plan(args, None)
        assert caught.value.kind is kind


@pytest.mark.parametrize("method", ["execute", "resume", "follow", "cancel"])
@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        (None, Refusal.ARGUMENTS, "plan: expected the id of a plan"),
        ("", Refusal.ARGUMENTS, "plan: expected the id of a plan"),
        ("x", Refusal.PLAN, "'x' matches no plan"),
    ],
)
async def test_refuses_unknown_plans(
    autojump_clock: MockClock, tmp_path: Path, method: str, name: str | None, kind: Refusal, text: str
) -> None:
    async with known(tmp_path) as methods:
        with pytest.raises(RefusalError, match=text) as caught:
            await getattr(methods, method)({"plan": name}, None)
        assert caught.value.kind is kind


@pytest.mark.parametrize(
    ("method", "wish", "kind", "text"),
    [
        ("execute", {"on_change": "wait"}, Refusal.ARGUMENTS, "on_change: expected replan or stop"),
        ("execute", {"wait_for_nodes": 1}, Refusal.ARGUMENTS, "wait_for_nodes: expected true or false"),
        ("cancel", {"now": 1}, Refusal.ARGUMENTS, "now: expected true or false"),
        ("cancel", {}, Refusal.PLAN, "plan ID is planned, not running"),
    ],
)
async def test_refuses_plans_that_cannot_be_executed(
    autojump_clock: MockClock, tmp_path: Path, method: str, wish: dict[str, object], kind: Refusal, text: str
) -> None:
    async with known(tmp_path) as methods:
        plan = await made(methods)
        with pytest.raises(RefusalError, match=text.replace("ID", plan["id"])) as caught:
            await getattr(methods, method)({"plan": plan["id"], **wish}, None)
        assert caught.value.kind is kind


async def test_resumes_interrupted_plans_only(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with known(tmp_path) as methods:
        made_plan = await made(methods)
        with pytest.raises(RefusalError, match="is planned, not interrupted"):
            await methods.resume({"plan": made_plan["id"]}, None)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, None),
        ({"options": {"max_length": 1}}, None),
        ({"options": None}, "has no options that are known here; run its tool again"),
        ({"options": {"colour": 1}}, "options: colour: no such option"),
        ({"tool": "hnew"}, "is of hnew, which is not known here"),
        ({"policy": "rebalance"}, "is of policy rebalance, which plans anew by itself"),
    ],
)
async def test_resumes_with_the_options_of_the_interrupted_plan(
    autojump_clock: MockClock, tmp_path: Path, facts: dict[str, Any], why: str | None
) -> None:
    async with planning(tmp_path) as (methods, plans):
        await made(methods)
        (old,) = plans.all
        old.state = PlanState.INTERRUPTED
        old.facts |= facts
        if why is not None:
            with pytest.raises(RefusalError, match=why):
                await methods.resume({"plan": old.id}, None)
            assert not old.seen
            return
        new: Any = await methods.resume({"plan": old.id}, None)
        assert (new["continues"], new["options"], new["state"]) == (old.id, old.facts["options"], "planned")
        again: Any = await methods.resume({"plan": old.id}, None)  # nobody has executed the first one
        (continued,) = (plan for plan in plans.all if plan.id == again["id"])
        continued.state = PlanState.DONE
        with pytest.raises(RefusalError, match=f"was continued by plan {again['id']}"):
            await methods.resume({"plan": old.id}, None)
