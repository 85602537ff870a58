"""Frames of the live view: what is shown at which size, and what keys change."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.cli.ctl.screen import SORTS, Choice, Shown, Style, frame, instances, nodes, press
from ganeti_htools.model.derive import derive
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate
from tests.support.by_hand import cluster, instance

DRBD = DiskTemplate.DRBD


@pytest.fixture(scope="module")
def state() -> State:
    rows = [instance("web", DRBD, "b", "a", 3000), instance("db", DRBD, "a", "c", 1000)]
    made = cluster({"a": 10_000, "b": 10_000, "c": 10_000}, rows)
    tagged = replace(made.nodes[2], tags=("htools:maintenance",))
    return derive(replace(made, nodes=(*made.nodes[:2], tagged)))


def status(**facts: Any) -> dict[str, Any]:
    decisions = {"served": 7, "unsatisfied": 0, "failed": 0, "median_ms": 12.3, "alone": 0}
    known = {"nodes": 3, "instances": 2, "ages": {"live": 3.0}, "unfinished_jobs": 1, "jobs": []}
    return {
        "version": "1.0",
        "uptime_s": 7200.0,
        "cluster": known,
        "decisions": decisions,
        "claims": {"living": 1},
        "plans": {"done": 2},
        "groups": [{"name": "group1", "score": 1.25, "health": "healthy"}],
        "policies": [{"name": "rebalance", "mode": "act"}, {"name": "squeeze", "mode": "off"}],
        "maintenance": [],
        "attention": [],
        **facts,
    }


def shown(state: State, choice: Choice, height: int | None = 24, **facts: Any) -> list[str]:
    lines = frame(Shown(status(**facts), state, 1.5), choice, 80, height)
    assert all(len(line.text) <= 80 for line in lines)
    return [line.text for line in lines]


def test_frame_fills_the_smallest_screen(state: State) -> None:
    lines = shown(state, Choice())
    assert len(lines) == 24
    assert lines[1] == "decisions 1.5/s, 7 served, median 12 ms, 1 claim, 1 job of Ganeti, 2 done plans"
    assert lines[2:4] == ["group1 1.250 healthy", "policies rebalance act"]
    assert lines[-1].startswith("by name q quit")
    assert [line.split()[0] for line in lines[6:9]] == ["a", "b", "c"]


@pytest.mark.parametrize(("width", "bar"), [(60, "[##.....]"), (80, "[####.........]")])
def test_bars_are_shares_in_use_and_take_the_width(state: State, width: int, bar: str) -> None:
    lines = [line.text for line in frame(Shown(status(), state), Choice(), width, 24)]
    assert f"{bar}  30%" in next(line for line in lines if line.startswith("b "))


def test_wide_screen_has_whole_names_and_long_bars() -> None:
    state = derive(cluster({"node-in-a-long-rack-of-a-far-away-site": 1000}, [], group="uuid-1"))
    row = [line.text for line in frame(Shown(status(), state), Choice(), 200, 60)][6]
    assert row.startswith("node-in-a-long-rack-of-a-far-away-site group1 [")
    assert 180 < len(f"{row} maintenance") <= 200


def test_node_in_maintenance_says_so(state: State) -> None:
    assert next(line for line in shown(state, Choice()) if line.startswith("c ")).endswith("maintenance")


@pytest.mark.parametrize("kind", SORTS)
def test_each_order_has_all_nodes(state: State, kind: str) -> None:
    found = nodes(state, Choice(sort=kind))
    assert sorted(found) == [0, 1, 2]
    assert nodes(state, Choice(sort=kind, backwards=True)) == found[::-1]


def test_fullest_node_comes_first(state: State) -> None:
    assert nodes(state, Choice(sort="memory"))[0] == 1


def test_many_alarms_leave_room_for_nodes(state: State) -> None:
    alarms = [{"text": f"alarm {number}", "command": "htoolsctl status"} for number in range(20)]
    lines = shown(state, Choice(), attention=alarms)
    shown_alarms = [line for line in lines if line.startswith("ATTENTION")]
    assert shown_alarms[:1] == ["ATTENTION  alarm 0; next: htoolsctl status"]
    assert (len(shown_alarms), shown_alarms[-1]) == (8, "ATTENTION  and 13 more: htoolsctl status")


def test_alarm_is_wrapped_and_its_command_has_a_line(state: State) -> None:
    alarm = {"text": f"{', '.join(f'node{number}' for number in range(12))} fail N+1", "command": "hbal -D"}
    lines = shown(state, Choice(), attention=[alarm])
    first = next(place for place, line in enumerate(lines) if line.startswith("ATTENTION"))
    assert lines[first + 1 : first + 3] == [
        "           node10, node11 fail N+1",
        "           next: hbal -D",
    ]


def test_running_plan_has_a_bar_and_the_time_left(state: State) -> None:
    jobs = {"succeeded": 3, "failed": 1, "going": 1, "left": 3}
    plan = {
        "id": "beef12345678",
        "tool": "hbal",
        "state": "running",
        "jobs": jobs,
        "began": 0.0,
        "now": 600.0,
    }
    known = Shown(status(plans={"running": 1, "done": 1}), state, plans=[plan])
    lines = [line.text for line in frame(known, Choice(), 80, 24)]
    assert lines[4] == f"hbal beef1234 [{'#' * 14}{'.' * 14}]  50% 4 of 8 jobs, about 10 min left"
    assert lines[1].endswith(" 1 job of Ganeti, 1 done plan")
    plan["jobs"] = {"succeeded": 0, "failed": 0, "going": 1, "left": 7}
    assert "0% 0 of 8 jobs" in frame(known, Choice(), 80, 24)[4].text


def test_data_ages_while_the_daemon_is_gone(state: State) -> None:
    line = frame(Shown(status(), state, behind=60.0), Choice(), 80, 24)[0]
    assert line.text == "htoolsd does not answer for 60 s; live 63 s old"
    assert line.style is Style.ALARM


def test_long_tables_follow_the_chosen_row() -> None:
    state = derive(cluster({f"node{number:04}": 1000 for number in range(1000)}, []))
    lines = frame(Shown(status(), state), Choice(row=999), 80, 24)
    chosen = [line.text for line in lines if line.style is Style.CHOSEN]
    assert (len(lines), chosen[0].split()[0]) == (24, "node0999")
    assert len(shown(state, Choice(), height=None)) > 1000


def test_names_cannot_steer_the_terminal(state: State) -> None:
    assert "\x1b" not in "".join(shown(state, Choice(), attention=[{"text": "\x1b[2J", "command": "ls"}]))


def test_keys_lead_to_an_instance_and_back(state: State) -> None:
    choice: Choice | None = Choice()
    for key in ("down", "enter", "enter"):
        assert choice is not None
        choice = press(key, choice, state)
    assert choice is not None
    assert (choice.node, choice.instance) == ("b", "web")
    lines = frame(Shown(status(), state, why="because"), choice, 80, 24)
    assert {"why web", "because"} <= {line.text for line in lines}
    for key in ("back", "back"):
        choice = press(key, choice, state)
        assert choice is not None
    assert (choice.node, choice.instance, choice.row) == ("", "", 1)
    assert press("q", choice, state) is None


def test_instances_of_a_node_are_its_primaries_first(state: State) -> None:
    assert [state.cluster.instances[row].name for row in instances(state, "a")] == ["db", "web"]
    assert any("secondary" in line and line.endswith("b") for line in shown(state, Choice(node="a")))


def test_filter_takes_all_letters(state: State) -> None:
    choice = press("/", Choice(), state)
    for key in ("q", "back", "b", "enter"):
        assert choice is not None
        choice = press(key, choice, state)
    assert choice == Choice(pattern="b")
    assert nodes(state, choice) == [1]


def test_filter_is_shown_and_taken_back(state: State) -> None:
    filtered = Choice(pattern="b")
    assert shown(state, filtered)[-1].startswith("by name /b q quit")
    assert press("back", filtered, state) == Choice()


def test_names_are_in_the_order_of_their_numbers() -> None:
    state = derive(cluster({f"node{number}": 1000 for number in (1, 10, 9)}, []))
    assert [line.split()[0] for line in shown(state, Choice())[6:9]] == ["node1", "node9", "node10"]


def test_common_domain_is_left_out() -> None:
    state = derive(
        cluster(
            {"a.example.org": 9000, "b.example.org": 9000},
            [instance("web.example.org", DRBD, "a.example.org", "b.example.org", 1)],
        )
    )
    for choice in (Choice(), Choice(node="a.example.org")):
        lines = frame(Shown(status(), state, suffix=".example.org"), choice, 80, 24)
        assert not any("example" in line.text for line in lines)


def test_worst_groups_are_shown_where_there_is_no_room_for_all(state: State) -> None:
    groups = [{"name": f"group{number}", "score": float(number), "health": "healthy"} for number in range(9)]
    groups[4]["health"] = "unhealthy"
    line = shown(state, Choice(), groups=groups)[2]
    assert line == "group4 4.000 unhealthy  group8 8.000 healthy  group7 7.000 healthy  and 6 more"


def test_long_reasons_are_wrapped(state: State) -> None:
    lines = frame(
        Shown(status(), state, why="  to node4: score 1, " + "better " * 20), Choice(instance="web"), 80, 24
    )
    assert sum(line.text.count("better") for line in lines) == 20


def test_jobs_of_ganeti(state: State) -> None:
    jobs = [{"id": 17, "status": "running", "summary": "INSTANCE_CREATE(web)"}]
    known = status()["cluster"] | {"jobs": jobs}
    choice = press("j", Choice(), state)
    assert choice is not None
    assert shown(state, choice, cluster=known)[6] == "      17 running   INSTANCE_CREATE(web)"
    assert press("enter", choice, state) == press("/", choice, state) == choice
    assert press("j", choice, state) == press("back", choice, state) == Choice()


def test_nothing_to_open(state: State) -> None:
    nowhere = Choice(pattern="nothing")
    assert press("enter", nowhere, state) == nowhere
    assert press("down", nowhere, state) == nowhere


def test_nodes_have_their_measured_load(state: State) -> None:
    load = {"nodes": [{"name": "a", "now": 0.25, "worst": 1.05}, {"name": "b", "now": None, "worst": 0.5}]}
    title, *rows = shown(state, Choice(), load=load)[5:9]
    assert "  CPU   USE WORST PRI SEC STATE" in title
    found = [row[title.index("USE") - 2 : title.index("WORST") + 5].split() for row in rows]
    assert found == [["25%", "105%"], ["-", "50%"], ["-", "-"]]
