"""A daemon and the Ganeti master that it follows, both as processes."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.calls import CallRefusedError, ask
from ganeti_htools.model.cluster import Cluster
from tests.daemon.planning import OFTEN, SPACIOUS, ctl, following, made, tool, until
from tests.support.clusters import Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.programs import PATIENCE, PROGRAMS, Daemon, executable, running, wait_until
from tests.support.rows import generated
from tests.support.simulators import Simulator, simulator
from tests.support.worlds import migrate

SHAPE = Shape(
    nodes=6, instances=24, templates={"drbd": 2, "ext": 1, "plain": 1}, offline=1, drained=1, down=0.2
)


@pytest.fixture
def ganeti(tmp_path: Path) -> Iterator[Simulator]:
    (tmp_path / "daemon").mkdir()
    with simulator(tmp_path / "daemon", generated(11, SHAPE), "--job-seconds=0.01") as ganeti:
        yield ganeti


@pytest.fixture
def daemon(tmp_path: Path, ganeti: Simulator) -> Iterator[Daemon]:
    with running(tmp_path / "daemon", config=OFTEN) as daemon:
        wait_until(lambda: known(daemon)["nodes"] == 6)
        yield daemon


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Simulator]]:
    """A daemon and its Ganeti, for tests that leave both as they were."""
    directory = tmp_path_factory.mktemp("unchanged") / "daemon"
    directory.mkdir()
    with (
        simulator(directory, generated(11, SHAPE), "--job-seconds=0.01") as ganeti,
        running(directory, config=f'{OFTEN}\nclaims = "never"') as daemon,
    ):
        wait_until(lambda: known(daemon)["nodes"] == 6)
        yield daemon, ganeti


def known(daemon: Daemon) -> Any:
    return daemon.status()["cluster"]


TOOLS = [
    ("hbal", "-p", "--print-instances", "-C"),
    ("hcheck",),
    ("hinfo", "-p+ptags", "--print-instances"),
    ("hroller", "--print-moves"),
    ("hspace", "--machine-readable"),
    ("hsqueeze", "-p"),
]


def test_tools_print_the_same_by_daemon_and_by_luxi(unchanged: tuple[Daemon, Simulator]) -> None:
    daemon, ganeti = unchanged
    for name, *options in TOOLS:
        ours = tool(name, f"-D{daemon.socket}", *options)
        asked = tool(name, f"-L{ganeti.socket}", *options)
        assert (ours.returncode, ours.stdout, ours.stderr) == (asked.returncode, asked.stdout, asked.stderr)
        assert ours.stdout


def test_hscan_saves_the_daemons_cluster(unchanged: tuple[Daemon, Simulator], tmp_path: Path) -> None:
    daemon, ganeti = unchanged
    finished = tool("hscan", f"-D{daemon.socket}", "-d", tmp_path)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert (tmp_path / "LOCAL.data").read_text() == ganeti.cluster()


def test_tools_warn_about_late_data(daemon: Daemon, ganeti: Simulator) -> None:
    ages = r"htoolsd: configuration data \d+ s old, live data \d+ s old"
    option = f"-D{daemon.socket}"
    assert tool("hinfo", option).stderr == ""
    assert re.fullmatch(ages + "\n", tool("hinfo", option, "-v").stderr)
    ganeti.tell("master", False)
    wait_until(lambda: known(daemon)["late"])
    late = tool("hinfo", option)
    assert late.returncode == 0
    assert re.fullmatch(rf"Warning: {ages} \({re.escape(str(ganeti.socket))}: .+\)\n", late.stderr)
    assert "(late)" in tool("htoolsctl", "--socket", daemon.socket, "status").stdout
    ganeti.tell("master", True)
    wait_until(lambda: not known(daemon)["late"])
    assert tool("hinfo", option).stderr == ""


def moved_away(rows: Cluster) -> str:
    """Return an instance whose migration frees much memory on its node."""
    return next(
        row.name for row in rows.instances if row.snode is not None and row.mem > 1024 and row.uses_memory
    )


def test_configuration_is_polled_for_each_tool(tmp_path: Path) -> None:
    """Even with rare polls: the configuration is polled on request, live data stays older."""
    (tmp_path / "daemon").mkdir()
    rows = generated(11, Shape(nodes=6, instances=24, templates={"drbd": 1}, fill=0.3))
    with (
        simulator(tmp_path / "daemon", rows, "--job-seconds=0") as ganeti,
        running(tmp_path / "daemon", config="config_seconds = 1000\nlive_seconds = 100_000\n") as daemon,
    ):
        wait_until(lambda: known(daemon)["instances"])
        for _ in range(2):
            ganeti.ask("SubmitManyJobs", [[migrate(moved_away(rows))]])
            wait_until(lambda: {state for _, state in ganeti.tell("jobs")} == {"success"})
            assert "inconsistent" not in tool("hcheck", f"-D{daemon.socket}").stderr
            ours = tool("hbal", f"-D{daemon.socket}", "--print-instances", "-l0")
            usual = tool("hbal", f"-L{ganeti.socket}", "--print-instances", "-l0")
            assert "Loaded" in ours.stdout
            assert (ours.returncode, ours.stderr) == (0, usual.stderr)
        assert known(daemon)["polls"]["live"]["done"] == 1


def test_silent_node_is_named_and_not_used(daemon: Daemon, ganeti: Simulator) -> None:
    lost = next(node.name for node in generated(11, SHAPE).nodes if not node.offline and not node.master)
    ganeti.tell("lose", lost)
    refreshed = tool("htoolsctl", "--socket", daemon.socket, "refresh")
    assert (refreshed.returncode, refreshed.stderr) == (0, "")
    assert known(daemon)["silent"] == [lost]
    assert f"silent     {lost}: " in tool("htoolsctl", "--socket", daemon.socket, "status").stdout
    shown = json.loads(tool("hinfo", f"-D{daemon.socket}", "--json").stdout)["node_list"]
    assert [node["name"] for node in shown if node["condition"] == "silent"] == [lost]
    finished = tool("hscan", f"-D{daemon.socket}", "-d", daemon.state)
    assert finished.stderr == f"Warning: node {lost} does not report, and is taken for offline\n"
    assert (daemon.state / "LOCAL.data").read_text() == ganeti.cluster()
    usual = tool("hinfo", f"-L{ganeti.socket}")
    assert (usual.returncode, usual.stderr) == (0, finished.stderr)


def test_job_changes_the_model(daemon: Daemon, ganeti: Simulator) -> None:
    before = known(daemon)["generations"]
    name = next(row.name for row in generated(11, SHAPE).instances)
    opcode = {
        "OP_ID": "OP_TAGS_SET",
        "kind": "instance",
        "name": name,
        "tags": ["new"],
        "reason": [["t", "", 1]],
    }
    ganeti.ask("SubmitManyJobs", [[opcode]])
    wait_until(lambda: known(daemon)["generations"]["instances"] > before["instances"])
    told: Any = ask(str(daemon.socket), "cluster", {})
    fields, data = told["instances"]["fields"], told["instances"]["data"]
    tags = {row[fields.index("name")][1]: row[fields.index("tags")][1] for row in data}
    assert "new" in tags[name]
    assert told["generations"] == before | {"instances": before["instances"] + 1}


def test_tool_fails_while_the_cluster_is_unknown(tmp_path: Path) -> None:
    with running(tmp_path / "daemon", config=OFTEN) as daemon:
        wait_until(lambda: daemon.status()["luxi"]["error"])
        finished = tool("hinfo", f"-D{daemon.socket}")
        assert (finished.returncode, finished.stdout) == (1, "")
        assert re.fullmatch(
            r"Error: failed to load data, aborting: the cluster is not known yet: .* cannot be reached: .*\n",
            finished.stderr,
        )
        with pytest.raises(CallRefusedError, match=r"^configuration: .* cannot be reached"):
            ask(str(daemon.socket), "refresh", {})
    finished = tool("hinfo", f"-D{daemon.socket}")
    assert re.fullmatch(r"Error: failed to load data, aborting: .*/socket: .*\n", finished.stderr)


def test_tools_refuse_two_sources(tmp_path: Path) -> None:
    for other in ("-L", "-mhost", "-tfile"):
        finished = tool("hinfo", "-D", other)
        assert finished.stderr == (
            "Error: Only one of the rapi, luxi, daemon, and data files options should be given.\n"
        )


def test_missing_disk_space_is_taken_from_the_model(
    tmp_path: Path, unchanged: tuple[Daemon, Simulator]
) -> None:
    daemon, _ = unchanged
    data = cluster(11, SHAPE)
    none = {"total_disk": 0, "free_disk": 0}
    nodes = {name: node if node["offline"] else node | none for name, node in data["nodes"].items()}
    request = tmp_path / "request"
    request.write_text(encode(message(data | {"nodes": nodes}, allocate("new", "sharedfile"))))
    plain = json.loads(tool("hail", request).stdout)
    assert plain["info"].endswith("; N+1 is judged without disk space, which the request lacks")
    decided = json.loads(executable(daemon.socket, request).stdout)
    assert decided["success"]
    assert re.search(r"as reported \d+ s ago$", decided["info"])


def test_large_cluster_serves_several_tools_at_once(tmp_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    shape = Shape(nodes=100, instances=1000)
    with (
        simulator(tmp_path / "daemon", generated(11, shape)),
        running(tmp_path / "daemon", config=OFTEN) as daemon,
    ):
        wait_until(lambda: known(daemon)["instances"] == 1000)
        clients = [
            subprocess.Popen([PROGRAMS / "hinfo", f"-D{daemon.socket}"], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        outputs = {client.communicate(timeout=PATIENCE)[0] for client in clients}
        assert len(outputs) == 1
        assert [client.returncode for client in clients] == [0, 0, 0]


def test_second_daemon_only_reads_until_the_first_has_ended(tmp_path: Path) -> None:
    with following(tmp_path, generated(4, SPACIOUS)) as (first, ganeti):
        options = "--luxi", str(ganeti.socket)
        with running(tmp_path / "second", config=OFTEN, options=options) as second:
            wait_until(lambda: known(second)["nodes"])
            holder = first.process.pid
            acts = f"another htoolsd (process {holder}) acts on {ganeti.socket}; this one only reads"
            assert second.status()["cluster"]["obstacle"] == acts
            assert first.status()["cluster"]["obstacle"] is None
            assert f"another htoolsd (process {holder}) acts on" in ctl(second, "status", "--wide").stdout
            plan = made(second, "hsqueeze")["id"]
            for refused in (ctl(second, "execute", plan), ctl(second, "claim", "x", "node1:MEMORY_MB=1")):
                assert (refused.returncode, refused.stderr) == (
                    1,
                    f"htoolsctl: refused (no-cluster): {acts}\n",
                )
            assert [line["process"] for line in second.told("another htoolsd acts on luxid")] == [holder]
            first.stop()
            wait_until(lambda: second.status()["cluster"]["obstacle"] is None)
            assert ctl(second, "execute", plan).returncode == 0
            until(second, "done")
