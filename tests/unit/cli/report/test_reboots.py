from ganeti_htools.cli.report import reboots
from ganeti_htools.engine.maintenance.rolling import NodeGraph, RebootGroup, Relocation
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.derive import derive
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand

STATE = derive(
    by_hand.cluster(dict.fromkeys(("n0", "n1", "n2"), 9000), [by_hand.instance("i", DiskTemplate.EXT, "n0")])
)
FIRST, EMPTY = RebootGroup((0, 2), (Relocation(0, 1, NOWHERE),)), RebootGroup((), ())


def test_a_line_for_a_group_or_for_a_node() -> None:
    assert reboots.text(STATE, [FIRST, EMPTY], one_a_line=False, moves=False) == "n0,n2\n\n"
    assert reboots.text(STATE, [FIRST, EMPTY], one_a_line=True, moves=False) == "n0\nn2\n"


def test_moves_follow_their_group() -> None:
    assert reboots.text(STATE, [FIRST], one_a_line=False, moves=True) == "n0,n2\n  i n1\n"
    assert reboots.group_json(STATE, FIRST) == {
        "nodes": ["n0", "n2"],
        "moves": [{"instance": "i", "primary": "n1"}],
    }


def test_the_algorithm_with_the_fewest_groups_comes_first() -> None:
    told = reboots.comparison({"LF": [[0], [1], [2]], "Dsatur": [[0, 1], [2]], "Dcolor": [[0], [1, 2]]})
    assert told == "Dcolor: 2 (1,2) TIE Dsatur: 2 (2,1) LOOSE LF: 3 (1,1,1)"


def test_a_graph_counts_from_its_first_node() -> None:
    assert reboots.graph(NodeGraph(1, ((1,), (0,)))) == "array (1,2) [(1,[2]),(2,[1])]"
