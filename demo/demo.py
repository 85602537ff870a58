"""Shows htoolsd at work without Ganeti: a daemon that follows a cluster, and what it decides and does.

A simulator plays the Ganeti master of the cluster in the requests beside this file. In a temporary
directory, the daemon follows it; the iallocator executable is run on the requests as Ganeti's master
would; a node group is balanced; and the executable is run once more with the daemon gone. Leaves
nothing behind.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ganeti_htools.backends import iallocator, text

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(sys.executable).parent
EXECUTABLE = HERE.parent / "iallocator" / "htoolsd"
START_SECONDS = 20


@contextmanager
def running(directory: Path, socket: Path, program: str, *arguments: str | Path) -> Iterator[None]:
    """A program that serves on a socket, until the end of the block."""
    log = directory / f"{program}.log"
    with log.open("w") as output:
        process = subprocess.Popen([PROGRAMS / program, *arguments], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{program} did not start:\n" + log.read_text())
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


def run(environment: Mapping[str, str], program: str, *arguments: str) -> None:
    """Show a command and what it prints."""
    print(f"\n$ {program} {' '.join(arguments)}", flush=True)
    subprocess.run([PROGRAMS / program, *arguments], env=environment, check=True)


def decide(request: Path, environment: Mapping[str, str]) -> tuple[dict[str, Any], float, str]:
    """The answer, the milliseconds it took from the process's start to its exit, and its stderr."""
    # On Debian the executable finds the interpreter itself.
    command = [] if Path("/usr/bin/python3").exists() else [sys.executable, "-IS"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, EXECUTABLE, request], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout), (time.perf_counter() - began) * 1000, done.stderr.strip()


def question(content: Mapping[str, Any]) -> str:
    """What a request asks, for people."""
    asked = content["request"]
    match asked["type"]:
        case "allocate":
            size = f"{asked['memory']} MiB of memory, {asked['disk_space_total']} MiB on disk"
            return f"place the new {asked['disk_template']} instance {short(asked['name'])} ({size})"
        case "multi-allocate":
            return f"place {len(asked['instances'])} new instances, one after the other"
        case "allocate-secondary":
            return f"find a secondary for {short(asked['name'])}, which is to become mirrored"
        case "relocate":
            return f"replace {short(asked['relocate_from'][0])} as secondary of {short(asked['name'])}"
        case "node-evacuate":
            return f"move {len(asked['instances'])} instances off their primary node"
        case _:
            return f"move {', '.join(map(short, asked['instances']))} to another node group"


def verdict(content: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """What was decided, for people."""
    if not answer["success"]:
        return [f"no: {answer['info'].split('; ', 1)[-1]}"]
    result = answer["result"]
    match content["request"]["type"]:
        case "allocate" | "relocate":
            return [" and ".join(map(short, result))]
        case "allocate-secondary":
            return [short(result)]
        case "multi-allocate":
            return [f"{short(name)} on {' and '.join(map(short, nodes))}" for name, nodes in result[0]]
        case _:
            moved, failed, jobs = result
            lines = [
                f"{short(name)} to {' and '.join(map(short, nodes))} ({group})"
                for name, group, nodes in moved
            ]
            lines += [f"{short(name)} stays: {reason}" for name, reason in failed]
            return [*lines, f"in {len(jobs)} jobs of {sum(map(len, jobs))} opcodes for Ganeti to run"]


def short(name: str) -> str:
    """A name without its domain."""
    return name.partition(".")[0]


def main() -> None:
    """Run the demonstration."""
    requests = sorted((HERE / "requests").glob("*.json"))
    first = json.loads(requests[0].read_text())
    print(
        f"A cluster of {len(first['nodes'])} nodes in {len(first['nodegroups'])} groups with"
        f" {len(first['instances'])} instances, played by htools-simulator; htoolsd follows it.\n"
        "\nGaneti's master writes a request to a file and runs the iallocator executable on it; that asks"
        "\nhtoolsd. Times are of the whole process.\n"
    )
    with tempfile.TemporaryDirectory(prefix="htoolsd-demo-") as name:
        directory = Path(name)
        cluster, luxi, socket = directory / "cluster.data", directory / "luxi", directory / "htoolsd.sock"
        cluster.write_text(text.dump(iallocator.read(requests[0].read_bytes()).cluster))
        environment = os.environ | {"HTOOLSD_SOCKET": str(socket)}
        ganeti = running(
            directory, luxi, "htools-simulator", "--job-seconds", "0.3", "--socket", luxi, cluster
        )
        daemon = running(
            directory, socket, "htoolsd", "--socket", socket, "--state-dir", directory, "--luxi", luxi
        )
        with ganeti, daemon:
            for request in requests:
                content = json.loads(request.read_text())
                answer, milliseconds, _ = decide(request, environment)
                print(f"{milliseconds:7.1f} ms  {question(content)}")
                for line in verdict(content, answer):
                    print(f"            -> {line}")
            print("\nA node group is balanced: planned and carried out by the daemon.")
            run(environment, "hbal", "-D", "-G", "group1", "-X")
            run(environment, "htoolsctl", "plans")
            run(environment, "htoolsctl", "status")
        print("\nThe daemon is stopped now. Ganeti still gets its answer, only later:\n")
        answer, milliseconds, stderr = decide(requests[0], environment)
        print(f"{milliseconds:7.1f} ms  {question(first)}")
        print(f"            -> {verdict(first, answer)[0]}")
        print(f"            on stderr: {stderr.replace(name, '...')}")


if __name__ == "__main__":
    main()
