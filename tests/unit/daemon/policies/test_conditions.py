"""When a policy may do something."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from htoolsd.config.policies import RebalanceSettings
from htoolsd.policies.conditions import Situation, obstacles, stop_reason, with_next_round
from htoolsd.policies.memory import Expense, PolicyMemory, Rounds, cool_downs_before
from htoolsd.policies.observe import touches
from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.remedy import Need
from htoolsd.policies.squeeze import PowerUp
from tests.support.policies import facts

SATURDAY = datetime(2026, 1, 31, 23, 30)
NOW = 1e6
ACTING = RebalanceSettings(mode="act", start=2.0, stop=1.0, hold=2)
HIGH = Need(True, False, "it is high")
SEEN = Situation(
    Rebalance(ACTING), PolicyMemory(), facts(3.0, now=NOW), SATURDAY, HIGH, rounds=Rounds(2, True)
)
ROUND = ACTING.every_seconds


DISMISSED = PolicyMemory(dismissed={"rack1": NOW + 60})


def held(settings: RebalanceSettings = ACTING, now: float = NOW, **seen: Any) -> dict[str, str]:
    known: Any = {"remedy": Rebalance(settings), "facts": facts(3.0, now=now)} | seen
    return dict(obstacles(replace(SEEN, **known)))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, {}),
        ({"outdated": True}, {"data": "the daemon's data about the cluster is too old"}),
        (
            {"updating": ["node1"]},
            {"data": "instances have come or gone; new figures are awaited from node1"},
        ),
        ({"silent": [*"abcdef"]}, {"silent": "nodes do not report: a, b, c, d, e and 1 more"}),
        ({"drained": ["node1"]}, {"drained": "nodes are drained: node1"}),
        ({"paused": NOW + 60}, {"watcher": "the watcher is paused for another 60 s"}),
        ({"paused": NOW - 1}, {}),
        ({"jobs": [7]}, {"jobs": "unfinished jobs: 7"}),
        ({"plan": "beef"}, {"plan": "plan beef is running"}),
        ({"proposal": "beef"}, {}),
        ({"conflict": "rebalance comes first"}, {"others": "rebalance comes first"}),
        ({"memory": PolicyMemory(dismissed={"rack2": NOW + 60})}, {}),
        ({"memory": PolicyMemory(dismissed={"rack1": NOW})}, {}),
        ({"memory": DISMISSED, "facts": facts(3.0, n1=1, now=NOW)}, {}),
    ],
)
def test_situation_has_obstacles(seen: dict[str, Any], expected: dict[str, str]) -> None:
    assert held(**seen) == expected


def test_forgotten_proposal_holds_a_policy_back_for_its_time() -> None:
    assert list(held(memory=DISMISSED)) == ["dismissed"]


NIGHT = "22:00-06:00"


@pytest.mark.parametrize(
    ("settings", "hour", "expected"),
    [
        ({"mode": "off"}, 23, {"mode": "the policy is off"}),
        ({"weekdays": ("mon", "sun")}, 23, {"hours": "today is sat, not mon or sun"}),
        ({"hours": "22:00-23:30"}, 23, {"hours": "it is 23:30, not within 22:00-23:30"}),
        ({"hours": "08:00-18:00"}, 23, {"hours": "it is 23:30, not within 08:00-18:00"}),
        ({"weekdays": ("sat",)}, 23, {}),
        ({"hours": "8:00-17:00"}, 23, {"hours": "it is 23:30, not within 8:00-17:00"}),
        ({"hours": "8:00-17:00"}, 16, {}),
        ({"hours": "22:00-24:00", "weekdays": ("sat",)}, 23, {}),
        ({"hours": "22:00-24:00"}, 1, {"hours": "it is 01:30, not within 22:00-24:00"}),
        ({"hours": NIGHT}, 23, {}),
        ({"hours": "23:30-23:30"}, 23, {}),
        # A night belongs to the day on which it began.
        ({"hours": NIGHT, "weekdays": ("sat",)}, 23, {}),
        ({"hours": NIGHT, "weekdays": ("fri",)}, 1, {}),
        ({"hours": NIGHT, "weekdays": ("sat",)}, 1, {"hours": "this is the night of fri, not sat"}),
        ({"hours": NIGHT, "weekdays": ("sat",)}, 6, {"hours": f"it is 06:30, not within {NIGHT}"}),
        ({"hours": NIGHT, "weekdays": ("fri",)}, 23, {"hours": "today is sat, not fri"}),
    ],
)
def test_settings_are_obstacles(settings: dict[str, Any], hour: int, expected: dict[str, str]) -> None:
    assert held(replace(ACTING, **settings), local=SATURDAY.replace(hour=hour)) == expected


@pytest.mark.parametrize(
    ("utc", "within"),
    [
        ("2026-03-29 00:59", False),  # 01:59
        ("2026-03-29 01:01", True),  # 03:01
        ("2026-10-25 00:45", True),  # 02:45, for the first time
        ("2026-10-25 01:15", False),  # 02:15, for the second time
        ("2026-10-25 01:45", True),
    ],
)
def test_hours_follow_the_clock_through_summer_time(utc: str, within: bool) -> None:
    local = datetime.fromisoformat(f"{utc}+00:00").astimezone(ZoneInfo("Europe/Berlin"))
    assert (held(replace(ACTING, hours="02:30-03:30"), local=local) == {}) is within


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, None),
        ({"hours": NIGHT, "weekdays": ("sat",)}, None),
        ({"hours": "22:00-23:30"}, "the policy's hours are over"),
        ({"hours": NIGHT, "weekdays": ("fri",)}, "the policy's hours are over"),
        ({"mode": "propose"}, "the policy's mode is propose"),
    ],
)
def test_stop_reason_of_a_running_plan(settings: dict[str, Any], why: str | None) -> None:
    assert stop_reason(replace(ACTING, **settings), SATURDAY) == why


def test_restores_cool_downs_of_what_did_not_move() -> None:
    """What has moved since then, by whomever, still counts."""
    since = {"done": 5.0, "unfinished": 5.0, "again": 5.0, "by_hand": 7.0}
    before = {"again": 2.0, "by_hand": 1.0}
    assert cool_downs_before(since, ["unfinished", "again", "by_hand", "gone"], 5.0, before) == {
        "done": 5.0,
        "again": 2.0,
        "by_hand": 7.0,
    }


def test_waiting_proposal_holds_back_further_proposals() -> None:
    proposing = replace(ACTING, mode="propose")
    assert held(proposing, proposal="beef") == {"plan": "plan beef waits for htoolsctl execute"}


def test_spent_budget_returns_after_a_day() -> None:
    memory = PolicyMemory()
    memory.spend(Expense(NOW - 86399, 30, 5))
    memory.spend(Expense(NOW - 10, 10, 5))
    assert held(memory=memory) == {"budget": "the day's budget is spent: moves left: 0, MiB left: 1048566"}
    assert held(memory=memory, now=NOW + 2) == {}
    assert held(memory=memory, remedy=PowerUp(SEEN.settings)) == {}  # type: ignore[arg-type]
    assert tuple(memory.plan_budget(ACTING, NOW + 2)) == (10, 262144)
    assert tuple(memory.plan_budget(replace(ACTING, moves_per_day=12), NOW + 2)) == (2, 262144)


def test_pauses_after_a_failed_plan_and_switches_off_after_several() -> None:
    memory, settings = PolicyMemory(), replace(ACTING, back_off_seconds=100, failures=3)
    for error, now, why in (
        ("no", NOW, "pauses for 100 s after a failed plan: no"),
        ("no", NOW + 1, "pauses for 199 s after a failed plan: no"),
        ("never", NOW + 1e9, "switched off after 3 failed plans; the last error: never"),
    ):
        memory.count_failure(settings, NOW, error, "rack1")
        assert held(settings, now, memory=memory) == {"failures": why}
        assert (held(settings, NOW + 200, memory=memory) == {}) is (error == "no")
    memory.forget_failures("rack1")
    assert held(settings, memory=memory) == {}


def test_failures_in_one_group_do_not_count_in_others() -> None:
    memory, settings = PolicyMemory(), replace(ACTING, failures=1)
    memory.count_failure(settings, NOW, "no", "rack2")
    assert held(settings, memory=memory) == {}
    assert memory.health(settings, NOW) == "switched off"
    assert memory.groups_off(settings) == ["rack2"]
    memory.keep_failures(["rack1"])
    assert memory.health(settings, NOW) == "healthy"


def rounds(changes: Iterable[dict[str, Any]], apart: float = ROUND, **seen: Any) -> str:
    """The rounds with these situations: + where the policy is at work afterwards, else -."""
    now, active = replace(SEEN, rounds=Rounds(), **seen), ""
    for at, change in enumerate(changes, 1):
        known: Any = {"facts": facts(3.0, now=NOW + at * apart)} | change
        now = with_next_round(replace(now, **known))
        active += "+" if now.rounds.active else "-"
    return active


def scores(*scores: float, n1: int = 0) -> list[dict[str, Any]]:
    return [{"need": Rebalance(ACTING).need(facts(score, n1))} for score in scores]


DRIFT, LOST = Need(True, False, "drift", "drift"), Need(True, False, "lost", "lost N+1")
CALM = Need(False, False, "between", "drift")
HIGH_SCORES = scores(9.0, 9.0, 9.0)


@pytest.mark.parametrize(
    ("changes", "active"),
    [
        (scores(2.0, 1.9, 2.5, 2.5, 1.5, 1.1, 1.0, 1.5, 2.0, 1.99, 2.0), "---+++-----"),
        (scores(0.5, 0.5, 0.5, n1=1), "-++"),
        (scores(float("nan"), float("nan")), "--"),
        # Rounds that drift has earned are no reason to repair, and the other way round.
        ([{"need": need} for need in (DRIFT, DRIFT, LOST, LOST, DRIFT, CALM)], "-+-+--"),
        ([{"need": need} for need in (DRIFT, DRIFT, CALM, CALM)], "-+++"),
        ([{"online": online} for online in ("ab", "ab", "a", "a", "ab")], "-+-+-"),
    ],
)
def test_acts_after_rounds_in_a_row_with_one_cause(changes: list[dict[str, Any]], active: str) -> None:
    assert rounds(changes) == active


def test_each_hot_node_has_its_own_rounds() -> None:
    """Node a acts after two rounds, and again two rounds later; b joins meanwhile."""
    now, memory, acted = replace(SEEN, rounds=Rounds()), PolicyMemory(), []
    for at, hot in enumerate(("a", "ab", "ab", "ab", "b", "", "b")):
        need = Need(bool(hot), not hot, "hot", "hot", tuple(hot))
        seen = replace(now, facts=facts(3.0, now=NOW + at * ROUND), need=need)
        now = with_next_round(replace(seen, rounds=memory.rounds_of("relieve", "rack1")))
        memory.rounds["relieve"] = {"rack1": now.rounds}
        acting = [name for name, streak in now.rounds.nodes.items() if streak == ACTING.hold]
        assert now.rounds.active is bool(acting)
        memory.note_action("relieve", ["rack1"], NOW, acting)
        acted.append("".join(acting))
    assert acted == ["", "a", "b", "a", "b", "", ""]


@pytest.mark.parametrize(
    ("seen", "active"),
    [
        ({"drained": ["node1"]}, "---"),
        ({"silent": ["node1"]}, "---"),
        ({"outdated": True}, "---"),
        # As when the daemon was not running.
        ({"apart": 3 * ROUND}, "-++"),
        ({"apart": 3 * ROUND + 1}, "---"),
        # As when nodes come back one after the other; but whoever asks every few minutes makes rounds.
        ({"apart": 5.0}, "---"),
        ({"apart": 60.0}, "-++"),
        # Between two sets of jobs of another hsqueeze there are none.
        ({"unfinished": ["node1"], "jobs": [7]}, "---"),
        ({"unfinished": ["node1"]}, "-++"),
        ({"unfinished": ["node1"], "jobs": [7], "plan": "beef"}, "-++"),
    ],
)
def test_counts_rounds_that_can_be_judged(seen: dict[str, Any], active: str) -> None:
    assert rounds(HIGH_SCORES, **seen) == active


def test_counting_keeps_the_time_of_the_last_action() -> None:
    done = replace(SEEN, rounds=Rounds(acted=5.0), silent=["node1"])
    assert with_next_round(done).rounds == Rounds(last=NOW, acted=5.0)


@pytest.mark.parametrize(
    ("score", "n1", "streak", "why"),
    [
        (1.0, 0, 0, "score 1.00000000 is below the start, 2"),
        (3.0, 0, 1, "score 3.00000000 is at or above the start, 2, for 1 of 2 rounds"),
        (3.0, 1, 1, "N+1 redundancy is lost, for 1 of 2 rounds"),
    ],
)
def test_reason_counts_the_rounds(score: float, n1: int, streak: int, why: str) -> None:
    assert held(rounds=Rounds(streak), **scores(score, n1=n1)[0]) == {"hold": why}


HERE = frozenset({"rack1", "node1", "web"})
EVERYWHERE = HERE | {"rack2", "node2", "mail"}


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "web"}, True),
        ({"OP_ID": "OP_INSTANCE_MOVE", "instance_name": "mail", "target_node": "node1"}, True),
        ({"OP_ID": "OP_TEST_DELAY", "on_nodes": ["node2", "node1"]}, True),
        ({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "mail"}, False),
        ({"OP_ID": "OP_CLUSTER_VERIFY"}, True),
        ({"OP_ID": "OP_NODE_QUERY_STORAGE", "nodes": ["node1"]}, False),
        ({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "reason": [["gnt", "node2", 1]]}, True),
        ({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "src_node": "node2"}, True),
        ({"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "new", "pnode": "node2"}, False),
        ({"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "instance_name": "mail"}, True),
        ({"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "instance_name": "mail", "target_groups": ["rack2"]}, False),
        ({"OP_ID": "OP_GROUP_EVACUATE", "group_name": "rack2", "target_groups": None}, True),
    ],
)
def test_recognizes_jobs_that_touch_a_group(opcode: dict[str, Any], expected: bool) -> None:
    elsewhere = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "mail"}
    assert touches([opcode], HERE, EVERYWHERE) is expected
    assert touches([elsewhere, opcode], HERE, EVERYWHERE) is expected
