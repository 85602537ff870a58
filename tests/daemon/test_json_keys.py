"""The manual page of htoolsctl tells of every key of ``--json``, which prints answers as they are."""

import json
from pathlib import Path
from signal import SIGHUP
from typing import Any

from tests.daemon.planning import call, ctl, following, made, measured, until
from tests.daemon.test_policies import config, considered
from tests.support.programs import request_file, wait_until
from tests.support.schemas import complaint
from tests.support.worlds import uneven
from tests.unit.test_json_keys import check

NOTIFY = 'notify.program = "/bin/true"\n'
# Kinds of consumers, commands, a program, a key of rolls, of which there are none, and keys of setup.
WORDS = {"claim", "execute", "resume", "cancel", "hmaintain", "working", "steps", "commands"}
DEFECT = {"task": "sync", "count": 1, "error": "KeyError: 'a'", "time": 1.0}
SAMPLED = {"group", "resource", "free", "total", "outcome", "days", "earliest", "latest"}
DIFFERENCE: Any = {
    **dict.fromkeys(
        ("ours", "theirs", "explained", "error", "file", "arguments", "verdict", "exact", "sides")
    ),
    "scores": {"ours": 1.0, "theirs": None},
    "our_seconds": 1.0,
    "their_seconds": 1.0,
    "seconds": {"ours": {"median": 1.0, "slowest": 1.0}},
}
JOB = {"id": 1, "status": "running", "summary": "CLUSTER_VERIFY"}

SAME = {"explain": "policies"}


def bare(document: Any, *keys: str) -> Any:
    """A document without what stands in these keys: that is told of elsewhere."""
    return {key: None if key in keys else value for key, value in document.items()}


def test_htoolsctl(tmp_path: Path) -> None:
    with following(tmp_path, uneven(), config=NOTIFY + config("shadow")) as (daemon, _):
        instance = considered(daemon)["moves"][0]["instance"]
        considered(daemon)
        daemon.configure(NOTIFY + config("propose"))
        daemon.signal(SIGHUP)
        wait_until(lambda: "propose" in {each["mode"] for each in call(daemon, "policies")})
        assert considered(daemon)["plan"]
        assert ctl(daemon, "decide", request_file(tmp_path)).returncode == 0
        call(daemon, "execute", plan=made(daemon)["id"])
        plan = until(daemon, "done")
        wait_until(lambda: call(daemon, "why", instance=instance)["entry"])
        wait_until(lambda: call(daemon, "status")["groups"])
        wait_until(lambda: call(daemon, "status", capacity=True)["capacity"]["groups"])
        names = [row.name for row in uneven().instances]
        measured(daemon, tmp_path, dict.fromkeys(names, 1.0), NOTIFY + config("propose"))
        node = call(daemon, "providers")[0]["uuid"]
        found = {
            "status": call(daemon, "status"),
            "metrics": call(daemon, "metrics"),
            "report": call(daemon, "report"),
            "refresh": call(daemon, "refresh"),
            "storage": call(daemon, "storage"),
            "load": call(daemon, "load", name=uneven().nodes[0].name),
            "sizes": call(daemon, "sizes"),
            "methods": call(daemon, "methods"),
            "plans": call(daemon, "plans"),
            "plan": plan,
            "policies": call(daemon, "policies"),
            "explain": call(daemon, "explain", policy="rebalance"),
            "run": call(daemon, "run", policy="squeeze"),
            "history": call(daemon, "history"),
            "why": call(daemon, "why", instance=instance),
            **{name: call(daemon, name) for name in ("providers", "inventory", "usage", "allocations")},
            "candidates": call(daemon, "candidates", resources={"MEMORY_MB": 1}),
            "claim": call(daemon, "claim", consumer="tests", allocations={node: {"MEMORY_MB": 1}}),
            "release": call(daemon, "release", consumer="tests"),
            "check": json.loads(ctl(daemon, "check", "--json").stdout),
            "notify": json.loads(ctl(daemon, "notify", "--test", "--json").stdout),
            "decide": json.loads(ctl(daemon, "decide", "--json", request_file(tmp_path)).stdout),
            "witness": call(daemon, "witness"),
            "bundle": json.loads(ctl(daemon, "bundle", "--json", f"--out={tmp_path}/tar").stdout),
            "glossary": json.loads(ctl(daemon, "glossary", "claim", "--json").stdout),
        }
    for name, document in found.items():
        assert complaint(f"htoolsctl-{SAME.get(name, name)}", document) is None, name
    cluster = found["status"]["cluster"]
    bared = {
        # there may be none just now
        "status": found["status"]
        | {
            "cluster": cluster | {"jobs": [JOB]},
            "defects": [DEFECT],
            "forecast": [dict.fromkeys(SAMPLED)],
        },
        "storage": {key: found["storage"][key] for key in ("ages", "late", "error")},  # others: hinfo(1)
        "methods": [bare(each, "arguments") for each in found["methods"]],
        "plans": [bare(each, "options", "bounds") for each in found["plans"]],
        "plan": bare(plan, "options", "bounds", "execution"),
        "history": [bare(entry, "arguments") for entry in found["history"]],
        "decide": None,  # Ganeti's answer
        "bundle": bare(found["bundle"], "replaced", "missing"),
        "difference": DIFFERENCE,
    }
    documents = list((found | bared).values())
    check("htoolsctl.1.md", documents, WORDS)
