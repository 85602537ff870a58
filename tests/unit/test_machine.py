"""All that the daemon runs takes clock, chance, threads and processes from ganeti_htools/machine.py."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What only the machine uses. A clock that is given a time, as in strftime(form, time), is none.
DIRECT = {
    "time": "time time_ns monotonic monotonic_ns perf_counter sleep",
    "datetime": "now utcnow today",
    "os": "urandom getrandom fork system",
    "uuid": "uuid1 uuid4",
    "random": "random choice shuffle randrange SystemRandom",
    "secrets": "token_hex token_bytes",
    "trio": "to_thread from_thread run_process",
    "trio.lowlevel": "start_thread_soon open_process",
    "threading": "Thread",
    "subprocess": "run Popen",
}
NAMES = {f"{module}.{name}" for module, names in DIRECT.items() for name in names.split()}
LAST = {name.rpartition(".")[2] for name in NAMES}  # most attributes have other names
GIVEN = {"time.strftime": 2, "time.localtime": 1, "time.gmtime": 1, "random.Random": 1}
# The programs of users, which the daemon does not run.
APART = ("cli", "client/calls.py", "client/plan_changes.py", "commandline", "version.py", "machine.py")


def direct_uses(text: str) -> list[str]:
    """Describe each use in one line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) if name in LAST and ast.unparse(node) in NAMES:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
            case ast.Call(func=func, args=[] | [_] as args) if len(args) < GIVEN.get(ast.unparse(func), 0):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
            case ast.ImportFrom(module=str(module), names=names):
                whole = [f"{module}.{alias.name}" for alias in names]
                found += [f"{node.lineno}: {name}" for name in whole if name in NAMES | {*GIVEN}]
    return found


def test_only_the_machine_has_clock_chance_threads_and_processes() -> None:
    found = []
    for root in (ROOT / "ganeti_htools", ROOT / "daemon" / "htoolsd"):
        for path in sorted(root.rglob("*.py")):
            if not str(path.relative_to(root)).startswith(APART):
                found += [f"{path.relative_to(ROOT)}:{use}" for use in direct_uses(path.read_text())]
    assert not found, "\n".join(["take it from ganeti_htools.machine:", *found])


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "field(default_factory=time.time)",
        "time.strftime('%Y')",
        "from uuid import uuid4",
        "from time import monotonic",
        "await trio.to_thread.run_sync(work)",
        "random.Random()",
    ],
)
def test_direct_use_is_found(text: str) -> None:
    assert direct_uses(text)


def test_given_time_is_no_clock() -> None:
    assert not direct_uses("time.strftime('%Y', time.localtime(seconds)); random.Random(1)")
