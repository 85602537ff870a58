import pytest

from ganeti_htools.model.moves import KINDS, RANK, TITLES, MoveKind, Operation, as_carried_out
from ganeti_htools.model.types import MirrorType

P, S, NEW = "p", "s", "new"


@pytest.mark.parametrize(
    ("kind", "steps", "after", "migrations"),
    [
        (MoveKind.FAILOVER, "f", (S, P), [(P, S)]),
        (MoveKind.FAILOVER_TO, "fa", (NEW, S), [(P, NEW)]),
        (MoveKind.REPLACE_SECONDARY, "r", (P, NEW), []),
        (MoveKind.REPLACE_AND_FAILOVER, "r f", (NEW, P), [(P, NEW)]),
        (MoveKind.REPLACE_PRIMARY, "f r f", (NEW, S), [(P, S), (S, NEW)]),
        (MoveKind.FAILOVER_AND_REPLACE, "f r", (S, NEW), [(P, S)]),
        (MoveKind.MOVE, "m", (NEW, S), []),
    ],
)
def test_operations_change_nodes(
    kind: MoveKind, steps: str, after: tuple[str, str], migrations: list[tuple[str, str]]
) -> None:
    assert " ".join(operation.value for operation in kind.operations) == steps
    assert kind.nodes(P, S, NEW) == after
    assert kind.migrations(P, S, NEW) == migrations
    assert kind.takes_node is (NEW in after)
    assert kind.to_primary is (after[0] == NEW)
    assert kind.copies_disks is bool({"r", "m"} & {*steps})


def test_disks_come_from_where_the_instance_is_by_then() -> None:
    assert MoveKind.REPLACE_PRIMARY.transfers(P, S, NEW) == [
        (Operation.FAILOVER, P, S),
        (Operation.REPLACE_SECONDARY, S, NEW),
        (Operation.FAILOVER, S, NEW),
    ]


def test_operations_are_known_by_one_letter_or_two() -> None:
    assert {operation.value: operation.takes_node for operation in Operation} == {
        "f": False,
        "fa": True,
        "r": True,
        "m": True,
    }
    assert [operation for operation in Operation if operation.copies_disks] == [
        Operation.REPLACE_SECONDARY,
        Operation.MOVE,
    ]


def test_each_kind_is_for_one_sort_of_instances() -> None:
    assert KINDS[MirrorType.EXTERNAL] == (MoveKind.FAILOVER_TO,)
    assert KINDS[MirrorType.NONE] == (MoveKind.MOVE,)
    kinds = (kind for kinds in KINDS.values() for kind in kinds)
    assert sorted(kinds, key=RANK.__getitem__) == list(MoveKind)
    assert [MoveKind(kind.value) for kind in MoveKind] == list(MoveKind)


@pytest.mark.parametrize(
    ("words", "command", "expected"),
    [
        ("failovers to any node", "migrate -f -n n2 i0", "migrations to any node"),
        ("replace secondary and fail over", "gnt-instance migrate -f i0", "replace secondary and migrate"),
        ("failover", "failover -f migrate", "failover"),
        ("replace primary", "migrate -f i0", "replace primary"),
    ],
)
def test_failover_of_running_instance_is_called_migration(words: str, command: str, expected: str) -> None:
    assert as_carried_out(words, ["replace-disks -n n2 i0", command]) == expected
    assert as_carried_out(expected, [command]) == expected
    assert words == "failovers to any node" or expected in TITLES
