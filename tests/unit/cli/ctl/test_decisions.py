from typing import Any

from ganeti_htools.cli.ctl import decisions


def group(name: str, **figures: Any) -> dict[str, Any]:
    return {"group": name, "alloc_policy": "preferred", **figures, "nodes": ["one", "two"]}


def test_ranking_lists_groups_of_each_instance() -> None:
    answer = [
        {"instance": "first", "groups": [group("a", score=1.5), group("b", score=None)]},
        {"instance": "nowhere", "groups": []},
        {"instance": "third", "groups": [group("b", lost=[3, 0], disk_left=1024)]},
    ]
    assert decisions.ranking(answer, 7).splitlines() == [
        " Instance Group Policy         Score Nodes   ",
        " first    a     preferred 1.50000000 one, two",
        " first    b     preferred not finite one, two",
        " third    b     preferred   3,0/1024 one, two",
    ]


def test_ranking_is_empty_without_groups() -> None:
    assert decisions.ranking([], 1) == ""
    assert decisions.ranking([{"instance": "a", "groups": []}], 1) == ""
