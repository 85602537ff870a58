"""A report of a fault: what it holds helps, and has none of the names."""

import gzip
import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

from ganeti_htools.anonymity.cluster import rename_cluster
from ganeti_htools.anonymity.names import NameKind
from ganeti_htools.backends import text
from ganeti_htools.engine.rules.score import score
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from tests.daemon.planning import OFTEN, call, following
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.programs import PROGRAMS, Daemon, Finished, run, script, wait_until
from tests.support.rows import with_master

SHAPE = Shape(nodes=4, instances=9, templates={"drbd": 1}, tags=("exclusion", "location"), down=0)
MARK = "kontor"  # in all names but words of formats
WORDS = {
    (NameKind.NODE, "node1.example.org"): "node",
    (NameKind.NODE, "node2.example.org"): "node-1.kontor.example",
    (NameKind.INSTANCE, "inst1.example.org"): "running",
    (NameKind.INSTANCE, "inst2.example.org"): "kontor",
    (NameKind.INSTANCE, "inst3.example.org"): "kontor-mail",
    (NameKind.INSTANCE, "inst4.example.org"): "kontor-mail.über.example",
    (NameKind.GROUP, "group1"): "default",
}
LOG: tuple[Any, ...] = (
    {"event": "history cannot be written; it is kept in memory", "error": "/srv/kontor/state: disk full"},
    {
        "event": "call failed",
        "node": "node-1.kontor.example",
        "exception": "KeyError: 'kontor-mail.über.example'",
    },
    {
        "event": "plan failed",
        "error": "ssh: 192.0.2.17, fe80::17 or aa:00:00:17:17:17 refused; payroll7.intern",
    },
    "not JSON: instance kontor-mail is not running on node-1 (/usr/lib/kontor/x.py)",
)
CONFIG = """{often}state_dir = "{directory}/state"
ledger = ""
[roles]
read = ["kontor", "@kontor-admins"]
[notify]
program = "/srv/kontor/tell"
[rebalance]
mode = "shadow"
hours = "22:00-06:00"
groups = ["default"]
exclude_instances = ["kontor-mail"]
"""


def planted() -> Cluster:
    def rename(kind: NameKind, name: str) -> str:
        return name and WORDS.get((kind, name), f"{MARK}.{name}")

    return rename_cluster(with_master(3, SHAPE), rename)


def bundle(daemon: Daemon, directory: Path, *options: str) -> Finished:
    """Run the command beside a journal with the daemon's log."""
    (directory / "bin").mkdir(exist_ok=True)
    lines = (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in LOG)
    (directory / "log").write_text(daemon.log.read_text() + "\n".join(lines))
    script(directory / "bin" / "journalctl", f"#!/bin/sh\nexec cat '{directory}/log'\n")
    command = PROGRAMS / "htoolsctl", "--socket", daemon.socket, "bundle", *options
    config = f"--config={daemon.socket.parent}/config"
    path = f"{directory}/bin:{os.environ['PATH']}"
    return run(*command, config, f"--out={directory}/kontor.tar.gz", environment={"PATH": path})


def members(directory: Path) -> dict[str, str]:
    packed = (directory / "kontor.tar.gz").read_bytes()
    (directory / "kontor.tar.gz").unlink()
    whole = gzip.decompress(packed)
    assert b"kontor" not in packed
    for secret in (MARK, "payroll", "intern", "192.0.2", "fe80", "aa:00", str(directory)):
        assert secret.encode() not in whole, secret
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        return {name.partition("/")[2]: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr]


def asked(**changes: object) -> str:
    wish = messages.allocate("kontor-new", tags=("service:kontor",)) | changes
    return json.dumps(messages.message(cluster(3, SHAPE), wish)).replace("example.org", "kontor.example")


def test_bundle_of_a_daemon_has_no_names_and_the_same_score(tmp_path: Path) -> None:
    config = CONFIG.format(often=OFTEN, directory=tmp_path / "daemon")
    with following(tmp_path, planted(), config=config) as (daemon, _):
        call(daemon, "decide", request=asked())
        call(daemon, "decide", request=asked(memory=1 << 22))
        plan = call(daemon, "plan", tool="hbal", options={})["id"]
        done = bundle(daemon, tmp_path, f"--plan={plan}")
        assert (done.returncode, done.stderr) == (0, "")
        assert " node names" in done.stdout
        found = members(tmp_path)
        daemon.kill()
        done = bundle(daemon, tmp_path, f"--plan={plan}", "--coarse", "--json")
    assert json.loads(found["missing.json"]) == {}
    made = json.loads(found["plan.json"])
    saved = text.parse(found["cluster.data"], "saved")
    assert score(derive(saved).columns) == made["score"]["before"]
    nodes = {each.name for each in saved.nodes}
    assert not {*nodes, *(each.name for each in saved.instances)} & {"node", "running"}
    placed, refused, planned = json.loads(found["history.json"])
    assert [each["kind"] for each in (placed, refused, planned)] == ["decision", "decision", "plan"]
    assert placed["instances"] == refused["instances"]
    assert json.loads(refused["asked"])["memory"] == 1 << 22
    assert planned["id"] == plan
    assert json.loads(found["configuration.json"])["rebalance"]["hours"] == "22:00-06:00"
    *_, full, failed, _, line = map(json.loads, found["log.jsonl"].splitlines())
    assert full["event"] == LOG[0]["event"]
    assert failed["node"] in nodes
    assert re.fullmatch(
        r"not JSON: instance instance-\S+ is not instance-\S+ on node-\S+ \(/path-\S+\)", line
    )

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert {*told["missing"]} == {"status.json", "cluster.data"}
    found = members(tmp_path)
    assert [each["kind"] for each in json.loads(found["history.json"])] == ["decision", "decision", "plan"]
    assert json.loads(found["plan.json"])["cost"]["disk_mib"] == 120000


def test_bundle_of_a_decision_has_its_recorded_request(tmp_path: Path) -> None:
    config = CONFIG.format(often=OFTEN, directory=tmp_path / "daemon") + "[recording]\nmib = 1\n"
    with following(tmp_path, planted(), config=config) as (daemon, _):
        decision = call(daemon, "decide", request=asked())["id"]
        call(daemon, "decide", request=asked(memory=1 << 22))
        wait_until(lambda: not daemon.status()["recording"]["waiting"])
        done = bundle(daemon, tmp_path, f"--decision={decision}")
    assert (done.returncode, done.stderr) == (0, "")
    found = members(tmp_path)
    (entry,) = json.loads(found["history.json"])
    assert entry["id"] == decision
    request = json.loads(found["request.json"])
    assert [request["request"]["name"]] == entry["instances"]
    assert request["request"]["memory"] == json.loads(asked())["request"]["memory"]
    assert set(request["nodes"]) >= set(entry["nodes"])
