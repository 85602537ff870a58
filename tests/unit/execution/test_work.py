from collections.abc import Sequence

import pytest

from ganeti_htools.execution.work import opcodes_of
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.moves import MoveKind, NamedMove


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (MoveKind.FAILOVER, [opcodes.migrate("i")]),
        (MoveKind.FAILOVER_TO, [opcodes.migrate("i", "n")]),
        (MoveKind.REPLACE_SECONDARY, [opcodes.replace_secondary("i", "n")]),
        (MoveKind.REPLACE_AND_FAILOVER, [opcodes.replace_secondary("i", "n"), opcodes.migrate("i")]),
        (MoveKind.FAILOVER_AND_REPLACE, [opcodes.migrate("i"), opcodes.replace_secondary("i", "n")]),
        (
            MoveKind.REPLACE_PRIMARY,
            [opcodes.migrate("i"), opcodes.replace_secondary("i", "n"), opcodes.migrate("i")],
        ),
    ],
)
def test_each_kind_of_move_has_its_opcodes(step: MoveKind, expected: Sequence[opcodes.Opcode]) -> None:
    node = None if step is MoveKind.FAILOVER else "n"
    assert list(opcodes_of(NamedMove.of("i", step, node, ("a", "b"), ("a", "n")), False)) == expected


def test_forthcoming_instances_are_failed_over() -> None:
    step = NamedMove.of("i", MoveKind.FAILOVER, None, ("a", "b"), ("b", "a"))
    assert list(opcodes_of(step, forthcoming=True)) == [opcodes.failover("i")]
