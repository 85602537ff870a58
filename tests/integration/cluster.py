"""The cluster: its nodes, and how to run something on them.

For use inside the namespaces that ``run`` makes.
"""

import contextlib
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.support.programs import ROOT
from tests.support.simulators import ask

TOP = Path("/srv/cluster")
MASTER = "node1"
# Their addresses are 192.0.2.11 and so on.
GROUPS = {"node1": "default", "node2": "default", "node3": "default", "node4": "other", "node5": "other"}
SPARE = "node6"  # prepared, but no member until `with_spare`
PATIENCE = 300.0  # seconds until a command is given up
# Below this are Ganeti's programs, if not with those of this machine.
TREE = os.environ.get("GANETI_TREE", "")
IALLOCATORS = Path(f"{TREE}/usr/lib/ganeti/iallocators")
# The first is the one whose space Ganeti reports for requests that name no template.
TEMPLATES = ("drbd", "plain", "file", "ext", "sharedfile", "diskless")
ANY_SIZE = (
    "min:cpu-count=1,disk-count=0,disk-size=0,memory-size=1,nic-count=0,spindle-use=0"
    "/max:cpu-count=8,disk-count=16,disk-size=1048576,memory-size=32768,nic-count=8,spindle-use=12"
)
EXECUTABLE = ("-I", "htoolsd")
UNFINISHED = ("queued", "waiting", "canceling", "running")
ADD = ("gnt-instance", "add", "-o", "none+default", "--no-name-check", "--no-ip-check")
SMALL = ("-B", "memory=256,vcpus=1")
_IP_FREEBIND = 15  # ip(7)

Command = Sequence[object]
Value = TypeVar("Value")


class Job(NamedTuple):
    """A job of Ganeti's queue."""

    number: int
    status: str
    summary: str


def socket_of(node: str) -> Path:
    """Where the daemon of a node listens."""
    return TOP / node / "htoolsd.sock"


def luxi(node: str = MASTER) -> Path:
    """Where Ganeti answers questions, if the node is the master."""
    return TOP / node / "var/run/ganeti/socket/ganeti-query"


def here() -> bool:
    """Whether this runs inside those namespaces."""
    return Path("/srv/bin/drbdsetup").exists()


def environment(node: str = MASTER) -> dict[str, str]:
    """What makes a program run on a node."""
    return {
        "PATH": "/srv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": os.environ["TMPDIR"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "GANETI_ROOTDIR": str(TOP / node),
        "GANETI_HOSTNAME": node,
        "HTOOLSD_SOCKET": str(socket_of(node)),
    }


def run(*commands: Command, node: str = MASTER) -> list[str]:
    """Run programs side by side on a node, each to success; what they print."""
    running = [start(command, node) for command in commands]

    def give_up() -> None:
        for process in running:
            process.kill()

    enough = threading.Timer(PATIENCE, give_up)
    enough.start()
    outputs = [process.communicate() for process in running]
    enough.cancel()
    for process, (out, err) in zip(running, outputs, strict=True):
        assert process.returncode == 0, f"{process.args!r}: {process.returncode}\n{out}{err}"
    return [out for out, _err in outputs]


def succeed(*commands: Command) -> None:
    """Run commands side by side; all jobs that this leads to succeed."""
    last, done = jobs()[-1].number, list[Job]()
    run(*commands)

    def ended() -> bool:
        done[:] = jobs(after=last)  # the daemon may have begun some, too
        return not any(job.status in UNFINISHED for job in done)

    wait_until(ended)
    assert len(done) >= len(commands)
    assert {job.status for job in done} == {"success"}, done


def carry_out(*opcodes: Mapping[str, object]) -> None:
    """Have Ganeti do things in one job, which is much cheaper than a command and a job for each."""
    number = ask(luxi(), "SubmitJob", [{"reason": [], **opcode} for opcode in opcodes])

    def ended() -> str:
        ((status,),) = ask(luxi(), "QueryJobs", [number], ["status"])
        return str(status) if status in ("success", "error", "canceled") else ""

    assert wait_until(ended) == "success", ask(luxi(), "QueryJobs", [number], ["opresult"])


def remove(*names: str) -> None:
    """Remove instances."""
    if names:
        carry_out(*({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name} for name in names))


def add_shared(places: dict[str, str], memory: int = 256) -> None:
    """Make instances on shared storage with some MiB of memory, each on a node."""
    common: dict[str, object] = {"OP_ID": "OP_INSTANCE_CREATE", "mode": "create", "os_type": "none+default"}
    common |= {"disk_template": "sharedfile", "disks": [{"size": 1024}], "nics": [{}]}
    common |= {"name_check": False, "ip_check": False, "beparams": {"memory": memory, "vcpus": 1}}
    carry_out(*(common | {"instance_name": name, "pnode": node} for name, node in places.items()))


def refusal(command: Command, node: str = MASTER) -> str:
    """Run a program on a node; how it fails."""
    process = start(command, node)
    _out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    return err


def start(command: Command, node: str = MASTER) -> subprocess.Popen[str]:
    """A program that has been started on a node: Ganeti's where Ganeti is, ours on this machine."""
    words = [str(word) for word in command]
    if TREE and not words[0].startswith(f"{ROOT}/"):
        words = ["chroot", TREE, *words]
    return subprocess.Popen(
        words,
        env=environment(node),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def switch_off(node: str) -> None:
    """Take the power from a node: its daemon, its instances and its ends of mirrors are gone at once.

    Ganeti is not told.
    """
    run(["/usr/lib/ganeti/daemon-util", "stop", "ganeti-noded"], node=node)
    for instance in (TOP / node / "var/run/ganeti/fake-hypervisor").iterdir():
        instance.unlink()
    for minor in re.findall(r"(?m)^ *(\d+): cs:", (TOP / node / "drbd").read_text()):
        run(["drbdsetup", "down", f"resource{minor}"], node=node)


def switch_on(node: str) -> None:
    """Give a node its power back; nothing runs there."""
    run(["/usr/lib/ganeti/daemon-util", "start", "ganeti-noded"], node=node)


def wait_until(condition: Callable[[], Value]) -> Value:
    """Wait for something in Ganeti, and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value


def table(program: str, fields: str, *names: str) -> list[list[str]]:
    """The cells that one of Ganeti's lists prints."""
    (out,) = run([program, "list", "--no-headers", "--separator=|", "-o", fields, *names])
    return [line.split("|") for line in out.splitlines()]


def jobs(after: int = 0, node: str = MASTER) -> list[Job]:
    """The jobs with a higher number, in order, as the master on a node knows them."""
    rows = ask(luxi(node), "QueryJobs", [], ["id", "status", "summary"])
    found = sorted(Job(number, status, ",".join(summary)) for number, status, summary in rows)
    return [job for job in found if job.number > after]


def unfinished(after: int = 0) -> list[Job]:
    """The jobs with a higher number that have not ended. What these submit belongs to them."""
    return [job for job in jobs(after) if job.status in UNFINISHED]


@contextlib.contextmanager
def locked(*nodes: str) -> Iterator[None]:
    """Nodes whose locks a job of Ganeti holds, so that other jobs wait for the end of the context."""
    opcode = {"OP_ID": "OP_TEST_DELAY", "duration": PATIENCE, "interruptible": True, "reason": []}
    number = ask(luxi(), "SubmitJob", [opcode | {"on_master": False, "on_nodes": nodes}])

    def listens() -> str:
        (((log,),),) = ask(luxi(), "QueryJobs", [number], ["oplog"])
        return "".join(content[0] for _, _, kind, content in log if kind == "delay-test")

    path = wait_until(listens)
    try:
        yield
    finally:
        with socket.socket(socket.AF_UNIX) as sleeper:
            sleeper.connect(TREE + path)
            sleeper.send(b".")


def wait_for_lock_requests(*numbers: int) -> None:
    """Wait until all these jobs want locks that others hold. Ganeti serves the lowest number first."""

    def waiting() -> set[int]:
        rows = ask(luxi(), "Query", "lock", ["pending"], None)["data"]
        return {int(number) for ((_, pending),) in rows for _, owners in pending for number in owners}

    wait_until(lambda: waiting() >= set(numbers))


def nodes_of(instance: str) -> list[str]:
    """The primary, and the secondary if there is one."""
    ((primary, secondaries),) = ask(luxi(), "QueryInstances", [instance], ["pnode", "snodes"], False)
    return [primary, *secondaries]


def master_cpu() -> dict[str, float]:
    """CPU seconds that the daemons of the master have used so far."""
    return {name: _cpu(MASTER, f"ganeti-{name}") for name in ("luxid", "wconfd")}


def nodes_cpu() -> float:
    """CPU seconds that the node daemons have used so far."""
    return sum(_cpu(node, "ganeti-noded") for node in GROUPS)


def live_requests() -> int:
    """How often nodes were asked for live data of themselves so far, all of them together."""
    logs = (TOP / node / "var/log/ganeti/node-daemon.log" for node in GROUPS)
    return sum(log.read_text().count("POST /node_info ") for log in logs)


def _cpu(node: str, daemon: str) -> float:
    process = (TOP / node / f"var/run/ganeti/{daemon}.pid").read_text().strip()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    # Its own, and that of its processes that have ended: noded has one for each request.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """The cluster, without instances, and with our executable among its iallocators."""
    for number, node in enumerate((*GROUPS, SPARE), start=11):
        _prepare(TOP / node, node, f"192.0.2.{number}")
        run(["/usr/lib/ganeti/ensure-dirs"], node=node)
    # Ganeti looks whether somebody listens there, and says nothing. The second is the address of the cluster,
    # which comes and goes with the master; the node daemon of a real master listens there as well.
    with socket.create_server(("", 22), backlog=1000), socket.socket() as noded:
        noded.setsockopt(socket.SOL_IP, _IP_FREEBIND, 1)
        noded.bind(("192.0.2.1", 1811))
        noded.listen(1000)
        run(
            [
                *("gnt-cluster", "init", "--no-ssh-init", "--no-etc-hosts"),
                *("--master-netdev=lo", "--master-netmask=32", "--nic-parameters=mode=openvswitch,link=none"),
                *("--enabled-hypervisors=fake", "--enabled-disk-templates=" + ",".join(TEMPLATES)),
                *("--vg-name=xenvg", "--drbd-usermode-helper=/bin/true"),
                "--file-storage-dir=/srv/ganeti/file-storage",
                "--shared-file-storage-dir=/srv/ganeti/shared-file-storage",
                *("--ipolicy-bounds-specs", ANY_SIZE, "cluster"),
            ]
        )
        for group in dict.fromkeys(GROUPS.values()):
            if group != "default":
                run(["gnt-group", "add", group])
        for node, group in GROUPS.items():
            if node != MASTER:
                _add(node, group)
        (IALLOCATORS / "htoolsd").symlink_to(ROOT / "iallocator" / "htoolsd")
        run(["gnt-cluster", "modify", "--default-iallocator=htoolsd"])
        yield


@contextlib.contextmanager
def with_spare(group: str) -> Iterator[None]:
    """A cluster of six nodes, the sixth in this group."""
    _add(SPARE, group)
    yield
    run(["gnt-node", "remove", SPARE])


def _add(node: str, group: str) -> None:
    run(["gnt-node", "add", "--no-ssh-key-check", f"--node-group={group}", node])


def _prepare(root: Path, node: str, address: str) -> None:
    for directory in ("default", "ganeti"):
        (root / "etc" / directory).mkdir(parents=True, exist_ok=True)
    for directory in ("lib/ganeti", "lock", "log/ganeti/extstorage", "run/ganeti"):
        (root / "var" / directory).mkdir(parents=True)
    (root / "drbd").write_text("version: 8.4.11 (api:1/proto:86-101)\nsrcversion: 0000000000000000000000\n")
    (root / "etc/ganeti/file-storage-paths").write_text(
        "/srv/ganeti/file-storage\n/srv/ganeti/shared-file-storage\n"
    )
    arguments = dict.fromkeys(("CONFD", "RAPI", "MOND"), f"-b {address}") | {
        "NODED": f"--no-mlock -b {address}"
    }
    (root / "etc/default/ganeti").write_text(
        "".join(f"{name}_ARGS='{given}'\n" for name, given in arguments.items())
        + f"export GANETI_ROOTDIR={root} GANETI_HOSTNAME={node} HTOOLSD_SOCKET={socket_of(node)}\n"
        + ("export HTOOLSD_HAIL=/srv/bin/hail\n" if TREE else "")
    )
