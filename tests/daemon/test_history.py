"""What the daemon tells of what it has decided and done."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError
from tests.daemon.planning import DRAINED, call, ctl, following, tool
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.programs import Daemon, running, wait_until
from tests.support.rows import generated

SHAPE = Shape(nodes=4, instances=6)


def decide(daemon: Daemon, name: str) -> Any:
    request = json.dumps(messages.message(cluster(1, SHAPE), messages.allocate(name)))
    return json.loads(call(daemon, "decide", request=request)["stdout"])


def kinds(daemon: Daemon, **wanted: object) -> list[str]:
    return [entry["kind"] for entry in call(daemon, "history", **wanted)]


def test_finds_a_decision_by_its_names(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        nodes = decide(daemon, "web.example.org")["result"]
        (entry,) = call(daemon, "history", instance="web")
        assert (entry["request"], entry["places"]) == ("allocate", [nodes])
        assert kinds(daemon, node=nodes[1]) == ["decision"]
        assert kinds(daemon, instance="mail") == []
        told = ctl(daemon, "history", "--instance=web", "--since=1h").stdout
        assert (
            f"decision {entry['id']}: test of allocate web.example.org => {':'.join(nodes)} (score " in told
        )
        assert call(daemon, "history", id=entry["id"]) == [entry]
        assert ctl(daemon, "history", "--id=cafe").stdout == "no entries\n"
        assert ctl(daemon, "history", "--since=2100-01-01").stdout == "no entries\n"


def test_written_entries_survive_a_kill(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        decide(daemon, "web.example.org")
        wait_until(lambda: daemon.status()["history"]["waiting"] == 0)
        daemon.kill()
        with running(tmp_path) as again:
            decide(again, "mail.example.org")
            names = [entry["instances"] for entry in call(again, "history")]
            assert names == [["web.example.org"], ["mail.example.org"]]


def test_explains_why_an_instance_is_on_its_nodes(tmp_path: Path) -> None:
    with following(tmp_path, generated(3, DRAINED)) as (daemon, _):
        done = json.loads(tool("hbal", f"-D{daemon.socket}", "-X", "-l1", "--json").stdout)
        (step,) = done["steps"]
        told = call(daemon, "why", instance=step["instance"])
        assert (told["entry"]["kind"], told["entry"]["state"]) == ("plan", "done")
        assert told["nodes"] == step["to"]
        text = ctl(daemon, "why", step["instance"]).stdout
        assert "It was placed there by: " in text
        with pytest.raises(CallRefusedError, match="Unknown instance: nobody"):
            call(daemon, "why", instance="nobody")
