"""What needs an administrator's attention."""

from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.run import Run, Task
from ganeti_htools.luxi.job_queries import JobStatus
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.tags import SQUEEZING, STANDBY_AUTO
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.groups.health import group_health
from htoolsd.api.attention import attention, rows_to_watch
from htoolsd.plans.plan import Plan, PlanState
from tests.support.worlds import instance, node

NOW = 1e9
POLICY: dict[str, Any] = {
    "name": "squeeze",
    "mode": "act",
    "health": "healthy",
    "error": None,
    "off": [],
    "lacking": [],
    "unknown": {},
}
STATUS: dict[str, Any] = {
    "luxi": {"state": "reachable", "error": None},
    "cluster": {
        "master": True,
        "nodes": 3,
        "late": False,
        "silent": [],
        "obstacle": None,
        "updating": [],
        "jobs": [],
    },
    "groups": [],
    "policies": [POLICY],
    "ledger": {"error": None, "following": None, "over_capacity": 0},
    "history": {"error": None, "damaged": 0},
    "set_aside": [],
    "defects": [],
    "notify": {"error": None},
    "http": {"listen": "127.0.0.1:9719", "error": None},
    "reload": {"path": "/etc/htoolsd.toml", "error": None, "waiting": []},
    "decisions": {"alone": 0, "last_alone": None, "lost": 0},
}


def cluster(*changes: dict[str, Any], status: Status = Status.RUNNING) -> Cluster:
    """Return three nodes with these changes; web is on the first two."""
    more = (*changes, {}, {}, {})[:3]
    nodes = tuple(node(f"node{number}", **each) for number, each in enumerate(more, 1))
    web = replace(instance("web", DiskTemplate.DRBD, "node1", "node2"), status=status)
    return Cluster((Group("rack1", "uuid"),), nodes, (web,))


def plan(state: PlanState, **facts: Any) -> Plan:
    run = Run(Signature("hbal", "", "", "beef"), [])
    known = {"tool": "hbal", "groups": ["rack1"], "options": {}}
    return Plan(known | facts, run, state=state, error=facts.get("error"))


def test_names_damaged_files() -> None:
    aside = ["/state/history.sqlite.damaged-20260101T000000"]
    (found,) = attention({**STATUS, "set_aside": aside}, None, (), NOW)
    assert (found.text, found.names) == (f"damaged files were set aside: {aside[0]}", aside)


def lines(*plans: Plan, of: Cluster | None = None, **changes: Any) -> list[str]:
    """Return the kind, the text and the command of each line."""
    status = {key: value | changes[key] if key in changes else value for key, value in STATUS.items()}
    status["groups"] = group_health(of) if of is not None else []
    special = rows_to_watch(of) if of is not None else None
    return [f"{each.text}; next: {each.command}" for each in attention(status, special, plans, NOW)]


def test_nothing_needs_attention() -> None:
    planned, done = plan(PlanState.PLANNED), plan(PlanState.DONE)
    assert lines(planned, done, of=cluster()) == []
    assert lines() == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"luxi": {"state": "unreachable", "error": "/luxi: refused"}},
            "luxid cannot be asked: /luxi: refused; next: systemctl status ganeti-luxid",
        ),
        (
            {"cluster": {"late": True}},
            "the data about the cluster is older than it should be; next: htoolsctl refresh",
        ),
        (
            {"cluster": {"silent": ["node3"]}},
            "node3: no report; counted as offline; next: gnt-cluster verify",
        ),
        (
            {"ledger": {"error": "/ledger: full"}},
            "the ledger cannot be used: /ledger: full; next: journalctl -u htoolsd -p warning",
        ),
        (
            {"notify": {"error": "/alarm: exit status 1"}},
            "notifications are not delivered: /alarm: exit status 1; next: htoolsctl notify --test",
        ),
        (
            {"http": {"error": "Address already in use"}},
            "HTTP does not listen at 127.0.0.1:9719: Address already in use;"
            " next: journalctl -u htoolsd -p warning",
        ),
        (
            {"ledger": {"over_capacity": 2}},
            "claims that exceed the capacity of their provider: 2; next: htoolsctl usage",
        ),
        (
            {"history": {"error": "full"}},
            "the history cannot be written: full; next: journalctl -u htoolsd -p warning",
        ),
        (
            {"history": {"damaged": 2}},
            "damaged entries of the history are left out: 2; next: journalctl -u htoolsd -p warning",
        ),
        (
            {"reload": {"error": "/etc/htoolsd.toml: unknown key 'hold'"}},
            "the new configuration was rejected, the old one is in use:"
            " /etc/htoolsd.toml: unknown key 'hold'; next: htoolsd --config /etc/htoolsd.toml --check-config",
        ),
        (
            {"reload": {"waiting": ["socket"]}},
            "changed keys need a restart: socket; next: systemctl restart htoolsd",
        ),
        (
            {"decisions": {"alone": 3, "last_alone": NOW - 60}},
            "decisions without the daemon and its claims: 3, the last within a day;"
            " next: journalctl -t htoolsd",
        ),
        (
            {"decisions": {"lost": 1}},
            "decisions that do not end: 1; next: journalctl -u htoolsd -p warning",
        ),
    ],
)
def test_part_of_the_daemon_needs_attention(changes: dict[str, Any], line: str) -> None:
    assert lines(of=cluster(), **changes) == [line]


def test_decisions_without_the_daemon_long_ago_need_none() -> None:
    assert lines(decisions={"alone": 3, "last_alone": NOW - 1e6}) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            cluster(status=Status.ERROR_DOWN),
            ["web is down and should run; next: gnt-instance startup web"],
        ),
        (cluster({"drained": True, "offline": True}, status=Status.DOWN), ["node1 is drained"]),
        (
            cluster({"offline": True}, status=Status.NODE_OFFLINE),
            [
                "web is down and should run on nodes that are offline; next: gnt-instance failover web",
                "node1 is offline and still has web; next: hbal -D -E -G rack1",
            ],
        ),
        (
            cluster({}, {}, {"offline": True, "tags": (SQUEEZING,)}),
            [f"node3: an hsqueeze works there, or was interrupted ({SQUEEZING}); next: hsqueeze -D"],
        ),
        (cluster({}, {}, {"offline": True, "tags": (STANDBY_AUTO,)}), []),
        (
            cluster({}, {"f_mem": 500}, {"f_mem": 100}),
            [
                "group rack1: node2 fails N+1, with web; next: hbal -D -G rack1",
                "group rack1: without node1, web would not come back; next: hcheck -D --what-if-lost=node1",
            ],
        ),
    ],
)
def test_cluster_needs_attention(found: Cluster, expected: list[str]) -> None:
    shown = lines(of=found)
    assert len(shown) == len(expected)
    assert all(line.startswith(start) for line, start in zip(shown, expected, strict=True))
    assert lines(of=found, cluster={"master": False}) == []


LOST = {"offline": True}


@pytest.mark.parametrize(
    ("template", "nodes", "silent", "why", "command"),
    [
        (DiskTemplate.DRBD, (LOST, {}), (), " on nodes that are offline", "gnt-instance failover web"),
        (
            DiskTemplate.EXT,
            (LOST, {}),
            (),
            " on nodes that are offline",
            "gnt-instance failover -I hail web",
        ),
        (
            DiskTemplate.DRBD,
            (LOST, {}),
            ("node1",),
            "; node1 does not report and is not set offline",
            "gnt-node modify --offline=yes --auto-promote node1",
        ),
        (
            DiskTemplate.DRBD,
            ({}, LOST),
            ("node2",),
            "; node2 does not report and is not set offline",
            "gnt-node modify --offline=yes --auto-promote node2",
        ),
        (DiskTemplate.DRBD, ({}, LOST), (), "", "gnt-instance startup web"),
        (
            DiskTemplate.DRBD,
            (LOST, LOST),
            (),
            "; node1 is offline and has to come back: no other node has the data",
            "gnt-node modify --offline=no node1",
        ),
        (
            DiskTemplate.DRBD,
            (LOST, {"offline": True, "drained": True}),
            (),
            "; its secondary node2 is drained",
            "gnt-node modify --drained=no node2",
        ),
        (
            DiskTemplate.PLAIN,
            (LOST, {}),
            (),
            "; node1 is offline and has to come back: no other node has the data",
            "gnt-node modify --offline=no node1",
        ),
        (DiskTemplate.PLAIN, ({"offline": True, "drained": True}, {}), (), "", "gnt-instance startup web"),
    ],
)
def test_next_command_of_an_instance_that_is_down_can_work(
    template: DiskTemplate, nodes: tuple[Any, Any], silent: tuple[str, ...], why: str, command: str
) -> None:
    found = cluster(*nodes, status=Status.NODE_DOWN)
    doubled = template is DiskTemplate.DRBD
    web = replace(found.instances[0], template=template, snode="node2" if doubled else None)
    special = rows_to_watch(replace(found, instances=(web,)))
    status = {**STATUS, "cluster": {**STATUS["cluster"], "silent": list(silent)}}
    (line,) = (each for each in attention(status, special, (), NOW) if each.kind == "down")
    assert (line.text, line.command) == (f"web is down and should run{why}", command)


@pytest.mark.parametrize("status", [Status.ERROR_DOWN, Status.WRONG_NODE, Status.ERROR_UP])
def test_instance_under_a_job_needs_no_attention(status: Status) -> None:
    """Nor before its node has reported since."""
    found = cluster(status=status)

    def job(name: str) -> dict[str, Any]:
        return {"jobs": [{"id": 1, "status": "running", "summary": f"TEST_DELAY, INSTANCE_STARTUP({name})"}]}

    assert len(lines(of=found)) == 1
    assert len(lines(of=found, cluster=job("webs"))) == 1
    assert lines(of=found, cluster=job("web")) == []
    assert lines(of=found, cluster={"updating": ["node1"]}) == []
    assert len(lines(of=found, cluster={"updating": ["node2"]})) == 1


def test_volume_in_the_way_of_a_move_is_named_until_the_instance_is_there() -> None:
    """Then its disks may have that name and that tag. All its volumes go, as Ganeti finds one at a time."""
    failed, again = plan(PlanState.FAILED), plan(PlanState.FAILED)
    for each, name in (failed, "0-1.disk0_data"), (again, "0-1.disk0_meta"):
        error = (
            f"Can't create block device <LogicalVolume(/dev/xenvg/{name}, visible as /dev/, size=1024m)>"
            " on node node3 for instance web: Can't create block device:"
            " LV create failed (exited with exit code 5): "
            f'  Logical Volume "{name}" already exists in volume group "xenvg"\n'
        )
        each.run.tasks.append(Task(Job("web", (), ()), "1/1", 7, JobStatus.ERROR, error))
        each.ended, each.seen = NOW - 10, True
    found = cluster()
    assert lines(failed, again, of=found) == [
        "node3 still has volume xenvg/0-1.disk0_meta of web, with which moves of it to node3 fail;"
        " next: ssh node3 lvremove -f @originstname+web"
    ]
    (web,) = found.instances
    for moved in (replace(web, snode="node3"), replace(web, pnode="node3"), replace(web, name="other")):
        assert lines(failed, of=replace(found, instances=(moved,))) == []
    assert lines(failed) == []  # nobody knows where it is
    failed.ended = NOW - 2 * 86400
    assert lines(failed, of=found) == []


def test_tags_without_effect_need_attention() -> None:
    found = cluster()
    web = replace(found.instances[0], tags=("htools:togeter:x", "htools:together", "svc:a"))
    (line,) = lines(of=replace(found, instances=(web,)))
    assert line == (
        "instance web: tag htools:togeter:x has no effect; did you mean htools:together? (1 more);"
        " next: hcheck -D"
    )


def test_names_in_commands_are_quoted() -> None:
    made = cluster({"offline": True}, status=Status.NODE_OFFLINE)
    odd = replace(made.instances[0], name="web;touch x"), replace(made.groups[0], name="rack 1")
    path = {"path": "/etc/my daemon.toml", "error": "empty"}
    shown = lines(of=replace(made, instances=odd[:1], groups=odd[1:]), reload=path)
    assert [line.partition("; next: ")[2] for line in shown] == [
        "gnt-instance failover 'web;touch x'",
        "hbal -D -E -G 'rack 1'",
        "htoolsd --config '/etc/my daemon.toml' --check-config",
    ]


def test_instances_that_exclude_each_other_need_attention() -> None:
    made = cluster()
    web, shop = (replace(made.instances[0], name=name, tags=("service:web",)) for name in ("web", "shop"))
    tagged = replace(made, tags=("htools:iextags:service",), instances=(web, shop))
    assert lines(of=tagged) == [
        "group rack1: node1 has instances with the same exclusion tag (service:web); next: hbal -D -G rack1"
    ]


def test_nodes_of_a_running_plan_need_none() -> None:
    squeezed = cluster({}, {}, {"offline": True, "tags": (SQUEEZING,)})
    assert lines(plan(PlanState.RUNNING), of=squeezed) == []


def test_failed_plan_needs_attention_until_somebody_looks() -> None:
    failed, left = plan(PlanState.FAILED, error="job 3 failed"), plan(PlanState.INTERRUPTED)
    assert lines(failed, left) == [
        "plan beef of hbal failed: job 3 failed; next: htoolsctl plan beef",
        "plan beef of hbal was interrupted; next: htoolsctl resume beef",
    ]
    failed.seen = left.seen = True
    assert lines(failed, left) == []


def test_proposals_wait_for_a_person_and_come_last() -> None:
    failed = {"health": "switched off", "error": "job 1 failed", "off": ["rack2"]}
    off = [{**POLICY, **failed, "lacking": ["rack1"]}]
    status = {**STATUS, "policies": off}
    found = attention(status, None, [plan(PlanState.PLANNED, policy="squeeze")], NOW)
    assert [f"{each.text}; next: {each.command}" for each in found] == [
        "policy squeeze has switched itself off in group rack2 after failed plans: job 1 failed;"
        " next: htoolsctl run --forget-failures squeeze",
        "not enough standby nodes: group rack1 lacks minimal resources with all of them up;"
        " next: hsqueeze -D -v -v",
        "plan beef of policy squeeze waits to be executed; next: htoolsctl plan beef",
    ]


def test_names_every_unknown_name_in_the_settings_of_a_policy() -> None:
    unknown = {"groups": ["rack7"], "exclude_instances": ["web", "mail"]}
    policy = {**POLICY, "unknown": unknown, "acts_in": []}
    nowhere = attention({**STATUS, "policies": [policy]}, None, [], NOW)
    assert [each.text for each in nowhere] == [
        "policy squeeze: groups: no such name: rack7; the policy acts nowhere",
        "policy squeeze: exclude_instances: no such name: web, mail; the policy acts nowhere",
    ]
    assert nowhere[0].command == "htoolsctl policies --explain squeeze"
    somewhere = attention({**STATUS, "policies": [{**policy, "acts_in": ["rack1"]}]}, None, [], NOW)
    assert somewhere[1].text == "policy squeeze: exclude_instances: no such name: web, mail; left out"
    assert attention({**STATUS, "policies": [{**policy, "mode": "off"}]}, None, [], NOW) == []


def test_lines_have_severity_and_all_names() -> None:
    many = [f"node{number}" for number in range(9)]
    blind = {
        "luxi": {"state": "unreachable", "error": "gone"},
        "cluster": {**STATUS["cluster"], "silent": many},
    }
    luxi, silent = (each.to_json() for each in attention({**STATUS, **blind}, None, [], NOW))
    assert (luxi["kind"], luxi["severity"], luxi["names"]) == ("luxi", "critical", ())
    assert (silent["kind"], silent["severity"], silent["names"]) == ("silent", "warning", many)
    assert "node8" not in silent["text"]


def test_task_with_a_defect_needs_attention_for_a_day() -> None:
    old, new = ({"task": task, "count": 3, "error": "KeyError: 'a'", "time": NOW - age} for task, age in AGES)
    (found,) = attention({**STATUS, "defects": [old, new]}, None, (), NOW)
    assert (found.kind, found.names) == ("defect", ["sync"])
    assert found.text == "task sync began again after a defect, 3 times so far: KeyError: 'a'"


AGES = [("history", 100_000), ("sync", 80_000)]
