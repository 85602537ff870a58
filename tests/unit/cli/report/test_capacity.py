from ganeti_htools.cli.report import capacity, layout
from ganeti_htools.engine.capacity.obstacles import Obstacle, Obstruction


def test_obstacles_are_named_up_to_a_number() -> None:
    names = tuple(f"i{number}" for number in range(layout.NAMED + 2))
    nodes = tuple(Obstacle(f"n{number}", names) for number in range(layout.NAMED + 1))
    told = capacity.obstacles(Obstruction(more=False, unchecked=7, obstacles=nodes))
    assert len(told) == layout.NAMED + 2
    assert told[0].startswith("n0 cannot fail without loss: i0, i1, ")
    assert told[0].endswith(" and 2 more would not come back")
    assert told[-2:] == ["nor another node", "without this check 7 would fit"]
    assert capacity.obstacles(None) == []
