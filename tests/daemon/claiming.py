"""A client that claims free resources as fast as it can; test_races.py runs it in processes.

Arguments: the daemon's socket, the name of its cluster, a number, the count of claims. Each claim prints a
line of JSON as soon as its result is known: the consumer, and its allocations by provider, or null.
"""

import json
import random
import sys
import time
from typing import Any

from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask

POOL = "ceph"
MEMORY, DISK = "MEMORY_MB", "CUSTOM_DISK_MIB"


def choice(usages: Any, cluster: str, memory: int, disk: int, chosen: random.Random) -> Any:
    """Return a node of the cluster with enough memory, if the pool has enough space; None otherwise."""
    free = {
        each["name"]: {name: found["capacity"] - found["used"] for name, found in each["usages"].items()}
        for each in usages
    }
    fitting = [
        each
        for each in usages
        if each["name"].startswith(f"{cluster}/") and free[each["name"]][MEMORY] >= memory
    ]
    return chosen.choice(fitting) if fitting and free[POOL][DISK] >= disk else None


def claim(socket: str, cluster: str, consumer: str, chosen: random.Random) -> Any:
    """Claim until it works or no node fits; return the allocations or None. After a conflict, choose anew."""
    memory, disk = chosen.randint(50, 150), chosen.randint(1, 20)
    while True:
        try:
            node = choice(ask(socket, "usage", {}), cluster, memory, disk, chosen)
            if node is None:
                return held(socket, consumer)
            wanted = {node["uuid"]: {MEMORY: memory}, POOL: {DISK: disk}}
            call = {
                "consumer": consumer,
                "allocations": wanted,
                "generations": {node["uuid"]: node["generation"]},
                "consumer_generation": None,
            }
            ask(socket, "claim", call)
            return {node["name"]: {MEMORY: memory}, POOL: {DISK: disk}}
        except CallRefusedError as error:
            if error.kind not in ("conflict", "no-capacity", "stopping"):
                raise
            if (found := held(socket, consumer)) is not None:
                return found  # the claim was made, but the answer was lost
        except NoReplyError:
            time.sleep(0.01)  # the daemon was killed


def held(socket: str, consumer: str) -> Any:
    """Return the allocations of a consumer, None for an unknown one."""
    try:
        answer: Any = ask(socket, "allocations", {"consumer": consumer})
    except (CallRefusedError, NoReplyError):
        return None
    return {each["name"]: each["resources"] for entry in answer for each in entry["allocations"]}


def main(socket: str, cluster: str, number: str, count: str) -> None:
    """Make so many claims."""
    chosen = random.Random(int(number))
    for each in range(int(count)):
        consumer = f"{cluster}/client{number}-{each}"
        print(json.dumps([consumer, claim(socket, cluster, consumer, chosen)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
