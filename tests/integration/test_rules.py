"""Rules of instances about their nodes on a real Ganeti: kept by requests, broken by hand, repaired."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cluster import ADD, EXECUTABLE, SMALL, carry_out, nodes_of, remove, run, succeed
from tests.support.programs import PROGRAMS

pytestmark = pytest.mark.integration

TAG = "disk:ssd"
TAGS = {
    **dict.fromkeys(("db1", "db2"), f"htools:on:{TAG},htools:apart:db"),
    **dict.fromkeys(("app", "cache"), "htools:together:shop"),
}
FAST = ("node1", "node2", "node3")


@pytest.fixture(scope="module", autouse=True)
def tagged() -> Iterator[None]:
    """Fast disks in one of the node groups."""
    tags: list[dict[str, Any]] = [{"kind": "node", "name": name, "tags": [TAG]} for name in FAST]
    carry_out(*(each | {"OP_ID": "OP_TAGS_SET"} for each in tags))
    yield
    remove(*TAGS)
    carry_out(*(each | {"OP_ID": "OP_TAGS_DEL"} for each in tags))


def add(name: str) -> list[object]:
    """The command that makes a mirrored instance where our executable decides."""
    return [*ADD, *SMALL, "-t", "drbd", "--disk", "0:size=1G", *EXECUTABLE, "--tags", TAGS[name], name]


def migrate(name: str) -> list[object]:
    return ["gnt-instance", "migrate", "-f", name]


def broken() -> set[str]:
    """The rules that are broken."""
    (out,) = run([PROGRAMS / "hcheck", "-L", "--no-simulation", "--json"])
    return {each["rule"] for each in json.loads(out)["broken_rules"]}


@pytest.mark.slow
def test_rules_hold_after_creations_an_evacuation_and_a_repair() -> None:
    succeed(add("db1"), add("app"))
    succeed(add("db2"), add("cache"))
    assert nodes_of("app") == nodes_of("cache")
    assert {*nodes_of("db1"), *nodes_of("db2")} <= {*FAST}
    assert broken() == set()

    primary, secondary = nodes_of("app")
    succeed(["gnt-node", "evacuate", "-f", *EXECUTABLE, "--primary-only", primary])
    assert nodes_of("app") == nodes_of("cache") == [secondary, primary]
    assert broken() == set()

    common = next(node for node in nodes_of("db1") if node in nodes_of("db2"))
    succeed(*(migrate(name) for name in ("db1", "db2") if nodes_of(name)[0] != common), migrate("cache"))
    assert broken() == {"htools:apart:db", "htools:together:shop"}
    (out,) = run([PROGRAMS / "hbal", "--all-groups", "--repair-rules", "-L", "-X", "--json"])
    moved = {step["instance"] for group in json.loads(out)["groups"] for step in group["steps"]}
    assert len(moved & {"db1", "db2"}) == len(moved & {"app", "cache"}) == 1
    assert broken() == set()
    run([PROGRAMS / "hcheck", "-L", "--rules"])
