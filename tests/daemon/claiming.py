"""A client that claims, as fast as it can, what is left; run in processes of their own by test_races.py.

Arguments: the daemon's socket, the name of its cluster, a number, how many claims. For each claim a line of
JSON is printed as soon as its fate is known: the consumer, and what it has of which provider, or null.
"""

import json
import random
import sys
import time
from typing import Any

from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask

POOL = "ceph"
MEMORY, DISK = "MEMORY_MB", "CUSTOM_DISK_MIB"


def choice(told: Any, cluster: str, memory: int, disk: int, chosen: random.Random) -> Any:
    """A node of the cluster that has room, if the pool has; None if there is none."""
    left = {
        each["name"]: {name: found["capacity"] - found["used"] for name, found in each["usages"].items()}
        for each in told
    }
    there = [
        each
        for each in told
        if each["name"].startswith(f"{cluster}/") and left[each["name"]][MEMORY] >= memory
    ]
    return chosen.choice(there) if there and left[POOL][DISK] >= disk else None


def claim(socket: str, cluster: str, consumer: str, chosen: random.Random) -> Any:
    """What is claimed at last; None if there was no room. Who was too late chooses from the newer state."""
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
            if (there := held(socket, consumer)) is not None:
                return there  # it was done, but the answer was lost
        except NoReplyError:
            time.sleep(0.01)  # the daemon was killed


def held(socket: str, consumer: str) -> Any:
    """What a consumer has, None if there is none."""
    try:
        answer: Any = ask(socket, "allocations", {"consumer": consumer})
    except (CallRefusedError, NoReplyError):
        return None
    return {each["name"]: each["resources"] for told in answer for each in told["allocations"]}


def main(socket: str, cluster: str, number: str, count: str) -> None:
    """Claim so often."""
    chosen = random.Random(int(number))
    for each in range(int(count)):
        consumer = f"{cluster}/client{number}-{each}"
        print(json.dumps([consumer, claim(socket, cluster, consumer, chosen)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
