from dataclasses import replace
from itertools import pairwise

import numpy as np

from ganeti_htools.backends import simu
from ganeti_htools.execution.work import command_of
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.columns import NOWHERE, existing
from ganeti_htools.model.derive import derive
from ganeti_htools.model.moves import Move, MoveKind, Operation
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.jobsets import Names, PlannedMove, cost_of, jobsets
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, EXT = DiskTemplate.DRBD, DiskTemplate.EXT
SIZES = {f"n{number}.example.org": 10_000 for number in range(6)}


def moves(*places: tuple[MoveKind, int, int, int]) -> list[PlannedMove]:
    """Moves of one instance after the other: kind, new node, primary and secondary afterwards."""
    rows = [instance(f"i{row}.example.org", DRBD, "n0.example.org", "n1.example.org") for row in range(3)]
    rows.append(instance("e.example.org", EXT, "n0.example.org", status=Status.DOWN))
    names = Names(derive(by_hand.cluster(SIZES, rows)))
    return [
        names.move(Move(row, kind.parts(node), existing(pnode, snode), 1.0))
        for row, (kind, node, pnode, snode) in enumerate(places)
    ]


def test_each_kind_of_move_has_its_commands() -> None:
    told = [
        (move.summary, *(command.removeprefix("gnt-instance ") for command in move.commands))
        for place in (
            (MoveKind.FAILOVER, NOWHERE, 1, 0),
            (MoveKind.REPLACE_SECONDARY, 2, 0, 2),
            (MoveKind.REPLACE_AND_FAILOVER, 2, 2, 0),
            (MoveKind.REPLACE_PRIMARY, 2, 2, 1),
            (MoveKind.FAILOVER_AND_REPLACE, 2, 1, 2),
        )
        for move in moves(place)
    ]
    assert told == [
        ("f", "migrate -f i0"),
        ("r:n2", "replace-disks -n n2 i0"),
        ("r:n2 f", "replace-disks -n n2 i0", "migrate -f i0"),
        ("f r:n2 f", "migrate -f i0", "replace-disks -n n2 i0", "migrate -f i0"),
        ("f r:n2", "migrate -f i0", "replace-disks -n n2 i0"),
    ]


def test_stopped_instance_is_failed_over() -> None:
    stays = (MoveKind.FAILOVER, NOWHERE, 1, 0)
    *_, move = moves(stays, stays, stays, (MoveKind.FAILOVER_TO, 3, 3, NOWHERE))
    assert (move.was, move.now) == (("n0",), ("n3",))
    assert (move.summary, move.commands) == ("fa:n3", ("gnt-instance failover -f -n n3 e",))
    assert (move.disk, move.memory) == (0, 0)


def test_instance_on_local_disks_is_moved() -> None:
    for status in (Status.RUNNING, Status.DOWN):
        row = instance("i0", DiskTemplate.PLAIN, "n0", status=status)
        assert command_of(Operation.MOVE, row, "i0", "n2") == "gnt-instance move -f -n n2 i0"


def test_cost_counts_copied_disks_and_memory() -> None:
    (move,) = moves((MoveKind.REPLACE_PRIMARY, 2, 2, 1))
    assert (move.disk, move.memory) == (1024, 2000)


def test_cost_counts_copied_disks_by_unit() -> None:
    cluster = simu.parse(["p,3,1t,64g,4;lvm-vg,ssdvg,1t"])
    first, second, _ = (node.name for node in cluster.nodes)
    ssd = Disk(200, unit=DesiredUnit(StorageType.LVM_VG, "ssdvg"))
    both = replace(instance("a", DRBD, first, second), dsk=556, disks=(Disk(100), ssd))
    one = replace(instance("b", DRBD, first, second), dsk=328, disks=(ssd,))
    names = Names(derive(replace(cluster, instances=(both, one))))
    made = [names.move(Move(row, MoveKind.REPLACE_SECONDARY.parts(2), (0, 2), 1.0)) for row in range(2)]
    made.append(names.move(Move(1, MoveKind.FAILOVER.parts(NOWHERE), (2, 0), 1.0)))
    assert [move.units for move in made] == [
        {"lvm-vg/xenvg": 228, "lvm-vg/ssdvg": 328},
        {"lvm-vg/ssdvg": 328},
        {},
    ]
    cost = cost_of(jobsets(made))
    assert cost["disk_mib_by_unit"] == {"lvm-vg/ssdvg": 656, "lvm-vg/xenvg": 228}
    assert cost["disk_mib"] == 656 + 228


def test_cost_has_units_only_if_nodes_report_them() -> None:
    made = moves((MoveKind.REPLACE_SECONDARY, 2, 0, 2))
    assert "disk_mib_by_unit" not in cost_of(jobsets(made))


def test_second_move_starts_where_the_first_ended() -> None:
    rows = [instance("i", DRBD, "n0", "n1")]
    names = Names(derive(by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 10_000), rows)))
    names.move(Move(0, MoveKind.FAILOVER.parts(NOWHERE), (1, 0), 1.0))
    assert names.move(Move(0, MoveKind.REPLACE_SECONDARY.parts(2), (1, 2), 1.0)).was == ("n1", "n0")


def test_jobsets_touch_no_node_twice_and_keep_the_order() -> None:
    rng = np.random.default_rng(1)
    rows = [instance(f"i{row}", DRBD, "n0", "n1") for row in range(30)]
    names = Names(derive(by_hand.cluster({f"n{number}": 90_000 for number in range(12)}, rows)))
    made = []
    for row in range(30):
        p, s = rng.choice(12, 2, replace=False).tolist()
        names.move(Move(row, MoveKind.FAILOVER.parts(NOWHERE), (p, s), 1.0))
        q = int(rng.integers(12))
        made.append(names.move(Move(row, MoveKind.REPLACE_SECONDARY.parts(q), (p, q), 1.0)))
    sets = jobsets(made)
    assert [move for jobs in sets for move in jobs] == made
    assert max(map(len, sets)) > 1
    for jobs in sets:
        assert sum(len(move.nodes) for move in jobs) == len(set().union(*(move.nodes for move in jobs)))
    for jobs, following in pairwise(sets):  # as few sets as can be, counted from the last
        assert jobs[-1].nodes & set().union(*(move.nodes for move in following))
