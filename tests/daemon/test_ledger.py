"""The ledger of a running daemon, shown and changed by htoolsctl."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.client.calls import CallRefusedError
from ganeti_htools.model.inventory import Inventory
from htoolsd.config.ledger import file_url
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import LedgerChanges, Provider, provider_uuid
from tests.daemon.planning import call, ctl, lines
from tests.support.programs import Daemon, running, wait_until

NODE = Provider(provider_uuid("c/node1.org"), "c/node1.org")
THERE = LedgerChanges(providers=(NODE,), inventories={NODE.uuid: {"MEMORY_MB": Inventory(1000)}})


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon without a cluster, whose ledger has a node."""
    with running(tmp_path) as daemon:
        wait_until(lambda: daemon.status()["ledger"]["providers"] == 0)
        ledger = Ledger(file_url(str(daemon.state)))
        ledger.apply(THERE)
        ledger.close()
        yield daemon


def test_inventory_and_claim_are_set_shown_and_removed(daemon: Daemon) -> None:
    assert lines(daemon, "providers")[1].split() == ["c/node1.org", "1", "yes", NODE.uuid]
    lines(daemon, "inventory", "set", "node1", "CUSTOM_GPU", "--total=8", "--reserved=1", "--max-unit=4")
    lines(daemon, "inventory", "set", "node1", "CUSTOM_GPU", "--max-unit=none", "--allocation-ratio=2")
    *shown, note = lines(daemon, "inventory", "node1")[1:]
    gpu, memory = (line.split() for line in shown)
    assert note == "In this ledger only, in no tag; set again: c/node1.org CUSTOM_GPU"
    assert gpu == ["c/node1.org", "CUSTOM_GPU", "8", "1", "1", "-", "1", "2", "14"]
    assert memory == ["c/node1.org", "MEMORY_MB", "1000", "0", "1", "-", "1", "1", "1000"]
    claimed = lines(daemon, "claim", "c/web", "node1:CUSTOM_GPU=3", "node1:MEMORY_MB=100")
    assert claimed == ["c/web (claim)", "  c/node1.org: CUSTOM_GPU 3, MEMORY_MB 100"]
    assert lines(daemon, "allocations") == lines(daemon, "allocations", "c/web") == claimed
    assert lines(daemon, "usage", "node1")[1].split() == ["c/node1.org", "CUSTOM_GPU", "3", "14", "11"]
    assert "1 provider, 1 claim, 0 conflicts" in ctl(daemon, "status").stdout
    assert lines(daemon, "release", "c/web") == ["the claim of c/web has ended"]
    assert lines(daemon, "allocations") == ["no allocations"]
    lines(daemon, "inventory", "set", "node1", "CUSTOM_GPU", "--remove")
    assert [line.split()[1] for line in lines(daemon, "inventory")] == ["Class", "MEMORY_MB"]


REFUSED: list[tuple[list[str], int, str]] = [
    (
        ["claim", "c/web", "node1:MEMORY_MB=1001"],
        1,
        "(no-capacity): c/node1.org: MEMORY_MB: 1001 requested",
    ),
    (["claim", "web", "node1:MEMORY_MB=x"], 2, "cannot parse string 'x', expected a size such as 8g"),
    (["release", "web"], 1, "(bad-arguments): there is no consumer web"),
]


def test_htoolsctl_explains_refusals(daemon: Daemon) -> None:
    for words, status, error in REFUSED:
        done = ctl(daemon, *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert error in done.stderr


def test_claim_with_an_old_generation_is_a_conflict(daemon: Daemon) -> None:
    (seen,) = json.loads(ctl(daemon, "providers", "--json").stdout)
    call(daemon, "claim", consumer="c/web", allocations={"node1": {"MEMORY_MB": 1}})
    with pytest.raises(CallRefusedError, match="changed by another client") as refused:
        call(
            daemon,
            "claim",
            consumer="c/mail",
            allocations={"node1": {"MEMORY_MB": 1}},
            generations={"node1": seen["generation"]},
        )
    assert refused.value.kind == "conflict"
    assert daemon.status()["ledger"]["conflicts"] == 1


def test_daemon_runs_without_a_usable_ledger(tmp_path: Path) -> None:
    (tmp_path / "state" / "ledger.sqlite").mkdir(parents=True)
    with running(tmp_path) as daemon:
        wait_until(lambda: daemon.status()["ledger"]["error"])
        told = f"{daemon.state}/ledger.sqlite: Is a directory"
        assert f"ledger     unavailable: {told}" in ctl(daemon, "status").stdout
        assert ctl(daemon, "providers").stderr == f"htoolsctl: refused (no-ledger): {told}\n"
        assert len(daemon.told("ledger unavailable")) == 1


def test_claim_by_hand_survives_a_daemon_kill(daemon: Daemon, tmp_path: Path) -> None:
    lines(daemon, "claim", "c/web", "node1:MEMORY_MB=100")
    daemon.kill()
    with running(tmp_path) as again:
        assert lines(again, "allocations") == ["c/web (claim)", "  c/node1.org: MEMORY_MB 100"]
