"""When a policy may do something."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from htoolsd.config.policies import PolicySettings, RebalanceSettings
from htoolsd.policies.conditions import Situation, obstacles, stop_reason, with_next_round
from htoolsd.policies.memory import Expense, PolicyMemory, Rounds, cool_downs_before
from htoolsd.policies.observe import touches
from htoolsd.policies.rebalance import need
from htoolsd.policies.remedy import Need, PlanBounds
from tests.support.policies import facts

SATURDAY = datetime(2026, 1, 31, 23, 30)
NOW = 1e6
ACTING = RebalanceSettings(mode="act", start=2.0, stop=1.0, hold=2)
HIGH = Need(True, False, "it is high")
SEEN = Situation(NOW, SATURDAY, PlanBounds("rack1"), 3.0, HIGH, rounds=Rounds(2, True))


def held(
    settings: PolicySettings = ACTING, memory: PolicyMemory | None = None, **seen: Any
) -> dict[str, str]:
    return dict(obstacles(settings, memory or PolicyMemory(), replace(SEEN, **seen)))


def test_has_no_obstacle() -> None:
    assert held() == {}


@pytest.mark.parametrize(
    ("seen", "condition", "reason"),
    [
        ({"outdated": True}, "data", "the daemon's data about the cluster is too old"),
        (
            {"updating": ["node1"]},
            "data",
            "instances have come or gone; new figures are awaited from node1",
        ),
        (
            {"silent": ["a", "b", "c", "d", "e", "f"]},
            "silent",
            "nodes do not report: a, b, c, d, e and 1 more",
        ),
        ({"drained": ["node1"]}, "drained", "nodes are drained: node1"),
        ({"paused": NOW + 60}, "watcher", "the watcher is paused for another 60 s"),
        ({"jobs": [7]}, "jobs", "unfinished jobs: 7"),
        ({"plan": "beef"}, "plan", "plan beef is running"),
        ({"conflict": "rebalance comes first"}, "others", "rebalance comes first"),
    ],
)
def test_situation_has_obstacles(seen: dict[str, Any], condition: str, reason: str) -> None:
    assert held(**seen) == {condition: reason}


@pytest.mark.parametrize(
    ("settings", "condition", "reason"),
    [
        ({"mode": "off"}, "mode", "the policy is off"),
        ({"weekdays": ("mon", "sun")}, "hours", "today is sat, not mon or sun"),
        ({"hours": "22:00-23:30"}, "hours", "it is 23:30, not within 22:00-23:30"),
        ({"hours": "08:00-18:00"}, "hours", "it is 23:30, not within 08:00-18:00"),
    ],
)
def test_settings_are_obstacles(settings: dict[str, Any], condition: str, reason: str) -> None:
    assert held(replace(ACTING, **settings)) == {condition: reason}


@pytest.mark.parametrize(
    "settings", [{"weekdays": ("sat",)}, {"hours": "22:00-06:00"}, {"hours": "23:30-23:30"}]
)
def test_acts_within_hours_and_weekdays(settings: dict[str, Any]) -> None:
    assert held(replace(ACTING, **settings)) == {}


@pytest.mark.parametrize(
    ("hour", "day", "reason"),
    [
        (23, "sat", None),
        (1, "fri", None),
        (1, "sat", "this is the night of fri, not sat"),
        (6, "sat", "it is 06:00, not within 22:00-06:00"),
        (23, "fri", "today is sat, not fri"),
    ],
)
def test_night_belongs_to_the_day_on_which_it_began(hour: int, day: str, reason: str | None) -> None:
    settings = replace(ACTING, hours="22:00-06:00", weekdays=(day,))
    local = SATURDAY.replace(hour=hour, minute=0)
    assert held(settings, local=local) == ({} if reason is None else {"hours": reason})


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
        ({"hours": "22:00-06:00", "weekdays": ("sat",)}, None),
        ({"hours": "22:00-23:30"}, "the policy's hours are over"),
        ({"hours": "22:00-06:00", "weekdays": ("fri",)}, "the policy's hours are over"),
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


def test_waiting_proposal_holds_back_further_proposals_only() -> None:
    proposing = replace(ACTING, mode="propose")
    assert held(proposing, proposal="beef") == {"plan": "plan beef waits for htoolsctl execute"}
    assert held(proposal="beef") == {}


def test_ended_pause_of_the_watcher_is_no_obstacle() -> None:
    assert held(paused=NOW - 1) == {}


def test_spent_budget_returns_after_a_day() -> None:
    memory = PolicyMemory()
    memory.spend(Expense(NOW - 86399, 30, 5))
    memory.spend(Expense(NOW - 10, 10, 5))
    assert held(memory=memory) == {"budget": "the day's budget is spent: moves left: 0, MiB left: 1048566"}
    assert held(memory=memory, now=NOW + 2) == {}
    assert held(memory=memory, needs_moves=False) == {}
    assert tuple(memory.plan_budget(ACTING, NOW + 2)) == (10, 262144)
    assert tuple(memory.plan_budget(replace(ACTING, moves_per_day=12), NOW + 2)) == (2, 262144)


def test_pauses_after_a_failed_plan_and_switches_off_after_several() -> None:
    memory, settings = PolicyMemory(), replace(ACTING, back_off_seconds=100, failures=3)
    memory.count_failure(settings, NOW, "no", "rack1")
    assert held(settings, memory) == {"failures": "pauses for 100 s after a failed plan: no"}
    assert held(settings, memory, now=NOW + 100) == {}
    memory.count_failure(settings, NOW, "no", "rack1")
    assert held(settings, memory, now=NOW + 199) == {"failures": "pauses for 1 s after a failed plan: no"}
    memory.count_failure(settings, NOW, "never", "rack1")
    off = {"failures": "switched off after 3 failed plans; the last error: never"}
    assert held(settings, memory, now=NOW + 1e9) == off
    memory.forget_failures("rack1")
    assert held(settings, memory) == {}


def test_failures_in_one_group_do_not_count_in_others() -> None:
    memory, settings = PolicyMemory(), replace(ACTING, failures=1)
    memory.count_failure(settings, NOW, "no", "rack2")
    assert held(settings, memory) == {}
    assert memory.health(settings, NOW) == "switched off"
    assert memory.groups_off(settings) == ["rack2"]
    memory.keep_failures(["rack1"])
    assert memory.health(settings, NOW) == "healthy"


def rounds(*scores: float, n1: int = 0, apart: float = 600.0, **seen: Any) -> list[bool]:
    """Whether the policy is at work after each of the rounds with these scores."""
    found, now = [], replace(SEEN, rounds=Rounds(), **seen)
    for score in scores:
        then = replace(now, now=now.now + apart, need=need(facts(score, n1), ACTING))
        now = with_next_round(ACTING, then)
        found.append(now.rounds.active)
    return found


def rounds_of(*needs: Need) -> list[bool]:
    """Whether the policy is at work after each of the rounds with these needs."""
    found, now = [], replace(SEEN, rounds=Rounds())
    for each in needs:
        now = with_next_round(ACTING, replace(now, now=now.now + 600, need=each))
        found.append(now.rounds.active)
    return found


def test_begins_after_rounds_in_a_row_and_stops_at_stop() -> None:
    scores = [2.0, 1.9, 2.5, 2.5, 1.5, 1.1, 1.0, 1.5, 2.0, 1.99, 2.0]
    assert rounds(*scores) == [False, False, False, True, True, True, False, False, False, False, False]


def test_lost_redundancy_is_a_reason() -> None:
    assert rounds(0.5, 0.5, 0.5, n1=1) == [False, True, True]


@pytest.mark.parametrize("seen", [{"drained": ["node1"]}, {"silent": ["node1"]}, {"outdated": True}])
def test_counts_no_rounds_that_cannot_be_judged(seen: dict[str, Any]) -> None:
    assert rounds(9.0, 9.0, 9.0, **seen) == [False, False, False]


def test_another_cause_begins_a_new_streak() -> None:
    """Rounds that drift has earned are no reason to repair, and the other way round."""
    drift, lost = Need(True, False, "drift", "drift"), Need(True, False, "lost", "lost N+1")
    calm = Need(False, False, "between", "drift")
    assert rounds_of(drift, drift, lost, lost, drift, calm) == [False, True, False, True, False, False]
    assert rounds_of(drift, drift, calm, calm) == [False, True, True, True]


def test_change_of_online_nodes_begins_a_new_streak() -> None:
    both, one = ["node1", "node2"], ["node1"]
    found = SEEN
    active = []
    for online in (both, both, one, one, both):
        found = with_next_round(ACTING, replace(found, now=found.now + 600, online=online))
        active.append(found.rounds.active)
    assert active == [False, True, False, True, False]


def test_long_pause_begins_a_new_streak() -> None:
    """As when the daemon was not running."""
    assert rounds(9.0, 9.0, 9.0, apart=3 * 600.0) == [False, True, True]
    assert rounds(9.0, 9.0, 9.0, apart=3 * 600.0 + 1) == [False, False, False]


def test_score_that_is_not_a_number_is_no_reason() -> None:
    assert rounds(float("nan"), float("nan")) == [False, False]


def test_counting_keeps_the_time_of_the_last_action() -> None:
    done = replace(SEEN, rounds=Rounds(acted=5.0), silent=["node1"])
    assert with_next_round(ACTING, done).rounds == Rounds(last=NOW, acted=5.0)


def test_looks_in_quick_succession_are_one_round() -> None:
    """As when nodes come back one after the other; but whoever asks every few minutes makes rounds."""
    assert rounds(9.0, 9.0, 9.0, apart=5.0) == [False, False, False]
    assert rounds(9.0, 9.0, 9.0, apart=60.0) == [False, True, True]


def test_counts_no_rounds_while_another_squeezes() -> None:
    """Between two sets of its jobs there are none."""
    squeezed: dict[str, Any] = {"unfinished": ["node1"], "jobs": [7]}
    assert rounds(9.0, 9.0, 9.0, **squeezed) == [False, False, False]
    assert rounds(9.0, 9.0, 9.0, unfinished=["node1"]) == [False, True, True]
    assert rounds(9.0, 9.0, 9.0, **squeezed, plan="beef") == [False, True, True]


def test_reason_counts_the_rounds() -> None:
    calm = need(facts(1.0), ACTING)
    assert held(rounds=Rounds(), need=calm) == {"hold": "score 1.00000000 is below the start, 2"}
    over, lost = need(facts(3.0), ACTING), need(facts(3.0, 1), ACTING)
    assert held(rounds=Rounds(1), need=over) == {
        "hold": "score 3.00000000 is at or above the start, 2, for 1 of 2 rounds"
    }
    assert held(rounds=Rounds(1), need=lost) == {"hold": "N+1 redundancy is lost, for 1 of 2 rounds"}


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
    here = frozenset({"rack1", "node1", "web"})
    assert touches([opcode], here, here | {"rack2", "node2", "mail"}) is expected


def test_checks_each_opcode_of_a_job() -> None:
    here = frozenset({"rack1", "node1", "web"})
    elsewhere = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "mail"}
    new = {"OP_ID": "OP_TAGS_SET", "kind": "cluster", "tags": ["tag"]}
    assert touches([elsewhere, new], here, here | {"mail"})
    assert not touches([elsewhere, elsewhere], here, here | {"mail"})
