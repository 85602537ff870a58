"""What the commands about the ledger ask of the daemon."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ganeti_htools.cli import htoolsctl
from tests.support.answering import Answering

NODE = {"uuid": "123", "name": "c/node1", "generation": 7, "can_host": True, "inventories": {}}
METHODS = "providers", "inventory", "set_inventory", "usage", "allocations", "claim", "candidates", "release"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Each call, answered with a node."""
    daemon = Answering(monkeypatch, **{key: [NODE] for key in METHODS})
    yield daemon.asked
    for method, patience in daemon.patience.items():
        assert round(patience) == (90 if method == "set_inventory" else 30)


def run(*words: str) -> int:
    return htoolsctl.main(["--socket=/socket", *words, "--json"])


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["providers"], ("providers", {})),
        (["inventory"], ("inventory", {})),
        (["inventory", "node1"], ("inventory", {"provider": "node1"})),
        (["usage", "node1"], ("usage", {"provider": "node1"})),
        (["allocations"], ("allocations", {})),
        (["allocations", "web"], ("allocations", {"consumer": "web"})),
        (["release", "web"], ("release", {"consumer": "web"})),
        (
            ["claim", "web", "node1:VCPU=1", "c/rados/a:b:CUSTOM_X=2", "node1:MEMORY_MB=3", "--seconds=5"],
            (
                "claim",
                {
                    "consumer": "web",
                    "allocations": {"node1": {"VCPU": 1, "MEMORY_MB": 3}, "c/rados/a:b": {"CUSTOM_X": 2}},
                    "seconds": 5.0,
                },
            ),
        ),
    ],
)
def test_what_is_asked(
    asked: list[Any], capsys: pytest.CaptureFixture[str], words: list[str], call: object
) -> None:
    assert run(*words) == 0
    assert asked == [call]
    assert json.loads(capsys.readouterr().out) == [NODE]


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        (["--total=8", "--max-unit=4"], {"total": 8, "max_unit": 4}),
        (["--max-unit=none", "--allocation-ratio=1.5"], {"max_unit": None, "allocation_ratio": 1.5}),
        (["--reserved=0", "--min-unit=2", "--step-size=2"], {"reserved": 0, "min_unit": 2, "step_size": 2}),
        (["--remove"], {"remove": True}),
    ],
)
@pytest.mark.usefixtures("capsys")
def test_what_is_set_rests_on_what_was_read(asked: list[Any], words: list[str], figures: object) -> None:
    assert run("inventory", "set", "node1", "CUSTOM_X", *words) == 0
    which = {"provider": "123", "generation": 7, "resource_class": "CUSTOM_X"}
    assert asked == [("inventory", {"provider": "node1"}), ("set_inventory", which | dict(figures))]  # type: ignore[call-overload]


@pytest.mark.usefixtures("capsys")
def test_sizes_of_memory_and_disk_have_units(asked: list[Any]) -> None:
    assert run("inventory", "set", "node1", "MEMORY_MB", "--reserved=4g") == 0
    assert run("claim", "web", "node1:MEMORY_MB=1g", "c/p:CUSTOM_DISK_MIB_POOL=1t", "--seconds=1h") == 0
    (_, changed), (_, claimed) = asked[1:]
    assert changed["reserved"] == 4096
    assert claimed["allocations"] == {"node1": {"MEMORY_MB": 1024}, "c/p": {"CUSTOM_DISK_MIB_POOL": 1048576}}
    assert claimed["seconds"] == 3600


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["inventory", "set", "n", "VCPU", "--total=4g"], "--total: expected a whole number, got '4g'"),
        (["inventory", "set", "n", "MEMORY_MB", "--total=4x"], "--total: unknown unit 'x'"),
        (["inventory", "set", "n", "VCPU", "--total=none"], "--total: expected a whole number, got 'none'"),
        (["inventory", "set", "node1"], "expected nothing, a PROVIDER, or set PROVIDER CLASS with figures"),
        (["inventory", "set", "node1", "CUSTOM_X"], "expected nothing, a PROVIDER, or set PROVIDER CLASS"),
        (["inventory", "node1", "--total=5"], "expected nothing, a PROVIDER, or set PROVIDER CLASS with"),
        (["inventory", "set", "n", "C", "--total=-5"], "expected a whole number, got '-5'"),
        (["inventory", "set", "n", "C", "--total=1234567890123456"], "expected a whole number, got '1234"),
        (["claim", "web", "VCPU=1"], "expected PROVIDER:CLASS=AMOUNT, got 'VCPU=1'"),
        (["claim", "web", "n:=1"], "expected PROVIDER:CLASS=AMOUNT, got 'n:=1'"),
        (["claim", "web", "n:VCPU=1", "n:VCPU=2"], "n:VCPU is named twice"),
        (
            ["claim", "web", "n:VCPU=1", "--seconds=nan"],
            "cannot parse string 'nan', expected a time such as 90s",
        ),
        (["inventory", "set", "n", "C", "--allocation-ratio=much"], "expected a number, got 'much'"),
        (["claim", "web", "n:VCPU=1.5"], "expected a whole number, got '1.5'"),
        (["claim", "web", "n:VCPU=1", "--group=rack1"], "--group: expected --any"),
        (["claim", "web", "n:VCPU=1", "--generation=x"], "expected a whole number, got 'x'"),
        (["claim", "--any", "web", "n:VCPU=1"], "expected CLASS=AMOUNT, got 'n:VCPU=1'"),
        (["candidates", "VCPU"], "expected CLASS=AMOUNT, got 'VCPU'"),
        (["candidates", "VCPU=1", "VCPU=2"], "VCPU is named twice"),
    ],
)
def test_command_lines_that_are_wrong(
    asked: list[Any], capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert (ended.value.code, asked) == (2, [])
    assert told in capsys.readouterr().err
