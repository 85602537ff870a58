"""The groups that could take a new instance come in the order in which they would get it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import respond, respond_on, state_for
from ganeti_htools.model.request import Allocate
from ganeti_htools.model.types import AllocPolicy
from tests.support.cases import Case, case
from tests.support.seeds import one_by_one

SEEDS = [seed for seed in range(120) if len(case(seed, "allocate").data["nodegroups"]) > 1]
WILLING = [policy.value for policy in AllocPolicy]


def without(asked: Case, *groups: str) -> Any:
    """The answer if these groups were not to take any instance."""
    options = parse_options(asked.options)
    message = iallocator.read(asked.text.encode())
    rows = tuple(
        replace(group, alloc_policy=AllocPolicy.UNALLOCABLE) if group.name in groups else group
        for group in message.cluster.groups
    )
    state = state_for(replace(message.cluster, groups=rows), message.request, options)
    return json.loads(respond_on(state, message.request, options, ranked=True)[0])


@pytest.mark.parametrize("seeds", [SEEDS[start::4] for start in range(4)])
def test_each_is_chosen_where_those_before_it_are_not(seeds: list[int]) -> None:
    longest = 0
    for seed in seeds:
        asked = case(seed, "allocate")
        assert asked.request["group_name"] is None
        told = without(asked)
        (ranking,) = [each["groups"] for each in told["ranking"]] or [[]]
        longest = max(longest, len(ranking))
        assert bool(ranking) is told["success"]
        for place, group in enumerate(ranking):
            answer = without(asked, *(better["group"] for better in ranking[:place]))
            assert answer["result"] == group["nodes"]
            assert [each["groups"] for each in answer["ranking"]] == [ranking[place:]]
            info = answer["info"].partition("; next best group: ")
            assert info[2].split(";")[0] == "".join(each["group"] for each in ranking[place + 1 : place + 2])
            assert f"Group {group['group']} ({group['alloc_policy']}): score: " in info[0]
        assert not without(asked, *(group["group"] for group in ranking))["success"]
        order = [WILLING.index(group["alloc_policy"]) for group in ranking]
        assert order == sorted(order)
    assert longest > 1


@pytest.mark.parametrize("seed", one_by_one(40))
def test_the_answer_is_the_same_with_and_without(seed: int) -> None:
    asked = case(seed)
    options, message = parse_options(asked.options), iallocator.read(asked.text.encode())
    state = state_for(message.cluster, message.request, options)
    plain, ranked = (
        json.loads(respond_on(state, message.request, options, ranked=ranked)[0]) for ranked in (False, True)
    )
    ranking = ranked.pop("ranking")
    response = respond(asked.text.encode(), options)
    assert (plain, json.loads(response.answer), response.ranking) == (ranked, ranked, ranking)
    if asked.request["type"] == "multi-allocate":
        chosen = [[each["instance"], each["groups"][0]["nodes"]] for each in ranking if each["groups"]]
        assert chosen == (plain["result"][0] if plain["success"] else [])
    elif not isinstance(message.request, Allocate):
        assert ranking == []
