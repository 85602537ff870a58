"""The judge finds each kind of fault in a record that has one, and nothing in a good record."""

from typing import Any

import pytest

from tests.world import judge
from tests.world.defects import DEFECTS, ROOT, Defect

Entry = dict[str, Any]
HBAL = "rebalancing via hbal (htoolsd) version 1, run abc, job 1/1"
HOUR = 3600.0


def node(**changes: Any) -> Entry:
    return {"offline": False, "drained": False, "silent": False, "tags": [], "f_mem": 1000, **changes}


def instance(*nodes: str, **changes: Any) -> Entry:
    return {"nodes": list(nodes), "mem": 500, "tags": [], "reserves": True, "uses": True, **changes}


def cluster(**changes: Any) -> Entry:
    """Three nodes; two instances on the first of them, one mirrored on each of the others."""
    settings = {"moves_per_day": 2, "hours": ""}
    return {
        "t": 0.0,
        "what": "cluster",
        "nodes": {name: node() for name in ("one", "two", "three")},
        "instances": {"web": instance("one", "two"), "db": instance("one", "three")},
        "tags": ["htools:iextags:service"],
        "config": {"rebalance": settings, "squeeze": settings},
        **changes,
    }


def submit(t: float, number: int, *ops: Entry, comment: str = HBAL, **reason: str) -> Entry:
    trail = [[source, text] for source, text in reason.items()]
    job = {"number": number, "comment": comment, "reason": trail, "ops": list(ops) or [op()]}
    return {"t": t, "what": "submit", "host": "one", "wall": t, "jobs": [job]}


def op(name: str = "web", *targets: str, kind: str = "INSTANCE_REPLACE_DISKS") -> Entry:
    return {"id": kind, "instance": name, "node": None, "targets": list(targets)}


def change(t: float, by: int | str, **changes: Any) -> Entry:
    return {"t": t, "what": "change", "by": by, "nodes": {}, "instances": {}, **changes}


def call(t: float, number: int, method: str, seconds: float = 1.0, **answer: Any) -> list[Entry]:
    return [
        {"t": t, "what": "call", "id": number, "method": method, "host": "one"},
        {"t": t + seconds, "what": "answer", "id": number, **answer},
    ]


def status(t: float, *attention: Entry, **more: Any) -> list[Entry]:
    told = {"attention": attention, "master": True, "up": 0.0, "going": False, **more}
    return call(t, int(t), "status", **told)


def role(t: float, host: str, master: bool) -> Entry:
    return {"t": t, "what": "role", "host": host, "master": master}


def ended(t: float, number: int, state: str = "success") -> Entry:
    return {"t": t, "what": "job", "number": number, "state": state}


POLICY = "plan of policy rebalance, 1 moves, 9 MiB, 0 jobs left"
BACK = HBAL.replace("abc", "def")
AGAIN = HBAL.replace("1/1", "2/1")
TAGGED = {
    "web": instance("one", "two", tags=["service:dns"]),
    "db": instance("two", "three", tags=["service:dns"]),
}
LOST = change(10.0, "power", nodes={"one": node(silent=True)})
DRAINED = change(20.0, 1, nodes={"two": node(drained=True)})

BAD: dict[str, list[Entry]] = {
    "submitted_twice": [cluster(), submit(10.0, 1), submit(20.0, 2)],
    "unrecorded": [cluster(), {"t": 9.0, "what": "unsynced", "host": "one", "file": "policies.json"}],
    "submitted_without_role": [cluster(), role(5.0, "one", False), submit(100.0, 1)],
    "placed_on_closed": [
        cluster(),
        change(10.0, "gnt-node", nodes={"three": node(drained=True)}),
        submit(500.0, 1, op("web", "three")),
    ],
    "outdated": [
        cluster(),
        change(10.0, "gnt-instance", instances={"web": None}),
        submit(500.0, 1, op("web", "three")),
    ],
    "decided_on_closed": [
        cluster(nodes={"one": node(drained=True), "two": node()}),
        *call(10.0, 1, "decide", answer=["one"]),
    ],
    "clung": [{"t": 500.0, "what": "hostile", "kind": "silent", "kept": 400.0}],
    "rules_broken": [
        cluster(instances=TAGGED),
        submit(10.0, 1, op(kind="INSTANCE_MIGRATE")),
        change(20.0, 1, instances={"web": {**TAGGED["web"], "nodes": ["two", "one"]}}),
    ],
    "redundancy_lost": [
        cluster(nodes={"one": node(), "two": node(f_mem=600), "three": node()}),
        submit(10.0, 1, op("db", "two")),
        change(20.0, 1, instances={"db": instance("one", "two")}),
        ended(20.0, 1),
    ],
    "powered_down_in_use": [
        cluster(),
        submit(10.0, 1, op(kind="NODE_SET_PARAMS"), hsqueeze=""),
        change(20.0, 1, nodes={"one": node(offline=True)}),
    ],
    "over_budget": [
        cluster(),
        *(
            submit(10.0 * at, at, op(f"web{at}"), comment=HBAL.replace("1/1", f"{at}/1"), htoolsd=POLICY)
            for at in (1, 2, 3)
        ),
    ],
    "restless": [
        cluster(),
        submit(10.0, 1, htoolsd=POLICY),
        submit(20.0, 2, comment=BACK, htoolsd=POLICY),
    ],
    "unanswered": [cluster(), *call(10.0, 1, "status", 20.0)],
    "decided_otherwise": [cluster(), *call(10.0, 1, "decide", answer=["one"], expected=["two"])],
    "undecided": [cluster(), *call(10.0, 1, "decide", error="internal", message="a defect")],
    "unreported": [cluster(), LOST, *status(2 * HOUR)],
    "cried_wolf": [cluster(), *status(2 * HOUR, {"kind": "silent", "names": ["one"], "text": ""})],
    "masterless": [role(0.0, "one", True), *status(2 * HOUR, master=None)],
    "plans_hang": [
        cluster(),
        submit(10.0, 1),
        ended(20.0, 1),
        *call(8 * HOUR, 1, "plans", plans=[{"id": "abc", "state": "running"}]),
    ],
    "left_unfinished": [cluster(), submit(10.0, 1, hsqueeze=""), DRAINED, *status(6 * HOUR)],
    "claims_beyond": [
        cluster(),
        *(
            {
                "t": t,
                "what": "ledger",
                "host": "one",
                "expired": [],
                "empty": [],
                "claims": [["two", "VCPU", 4, claimed, 2 + claimed]],
            }
            for t, claimed in ((10.0, 1), (20.0, 3))
        ),
    ],
    "pointless": [
        cluster(),
        submit(10.0, 1, htoolsd=POLICY),
        change(20.0, 1, instances={"web": instance("three", "two")}),
        submit(30.0, 2, comment=AGAIN, htoolsd=POLICY),
        change(40.0, 2, instances={"web": instance("one", "two")}),
    ],
    "defects": [
        {"t": 1.0, "what": "log", "host": "one", "event": "task", "exception": "Traceback\nKeyError: 1"}
    ],
}

GOOD = [
    cluster(),
    submit(10.0, 1, op("web", "three")),
    change(20.0, 1, instances={"web": instance("one", "three", mem=100)}),
    ended(20.0, 1),
    role(30.0, "one", False),
    role(30.0, "two", True),
    change(40.0, "power", nodes={"two": node(silent=True)}),
    *status(2 * HOUR, {"kind": "silent", "names": ["two"], "text": "two: no report"}),
    *call(2 * HOUR, 2, "decide", 9.0, answer=["one"], expected=["one"]),
]


@pytest.mark.parametrize("name", [each.__name__ for each in judge.JUDGEMENTS])
def test_finds_fault_in_bad_record(name: str) -> None:
    assert [found for found in judge.judge(BAD[name]) if found.startswith(name)]


@pytest.mark.parametrize("name", BAD)
def test_accuses_of_nothing_else(name: str) -> None:
    assert {found.partition(":")[0] for found in judge.judge(BAD[name])} == {name}


def test_finds_nothing_in_good_record() -> None:
    assert judge.judge(GOOD) == []


@pytest.mark.parametrize("defect", DEFECTS, ids=[each.name for each in DEFECTS])
def test_planted_defect_has_its_place(defect: Defect) -> None:
    changed = (ROOT / defect.path).read_text().replace(defect.old, defect.new)
    compile(changed, defect.path, "exec")
    assert (ROOT / defect.path).read_text().count(defect.old) == 1
