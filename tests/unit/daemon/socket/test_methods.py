"""What can be asked for, and what of it is refused."""

from collections.abc import Mapping
from typing import Annotated, Any

import pytest

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.records import Valid, choice
from htoolsd.socket.methods import Args, File, Method, Methods, Name, method, methods_of
from htoolsd.socket.roles import Role

NOTHING: Mapping[str, int] = {}


@pytest.fixture
def methods() -> Methods:
    async def echo(args: Args, _file: File) -> object:
        return args.get("word")

    methods = Methods()
    methods.add(Method("say", 2, "Says a word.", {"word": "any"}, Role.READ, echo))
    methods.add(Method("add", 1, "Adds nothing.", {}, Role.ACT, echo))
    return methods


async def test_lists_methods_by_name(methods: Methods) -> None:
    listed: Any = await methods.run("methods", {}, None)
    assert [each["name"] for each in listed] == ["add", "methods", "say"]
    assert listed[2] == {
        "name": "say",
        "version": 2,
        "role": "read",
        "doc": "Says a word.",
        "arguments": {"word": "any"},
    }


def test_method_without_a_role_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="role"):
        method("Does something.")  # type: ignore[call-arg]


async def test_runs_a_method(methods: Methods) -> None:
    assert await methods.run("say", {"word": 7}, None) == 7
    assert await methods.run("say", {}, None) is None


@pytest.mark.parametrize(
    ("name", "args", "kind", "text"),
    [
        ("x" * 1000, {}, Refusal.METHOD, "no method"),
        ("say", {"x" * 1000: 1}, Refusal.ARGUMENTS, "^say: there is no argument 'x"),
        ("methods", {"word": 1}, Refusal.ARGUMENTS, "^methods: there is no argument 'word'"),
    ],
)
async def test_refuses_unknown_methods_and_arguments_briefly(
    methods: Methods, name: str, args: dict[str, object], kind: Refusal, text: str
) -> None:
    with pytest.raises(RefusalError, match=text) as caught:
        await methods.run(name, args, None)
    assert caught.value.kind is kind
    assert len(str(caught.value)) < 200


class Subject:
    """One method with arguments of all kinds."""

    @method("Returns its arguments.", role=Role.READ)
    async def show(
        self,
        file: File,
        count: Annotated[int, "a count"],
        share: Annotated[float | None, "a share"] = None,
        words: Annotated[tuple[str, ...], Valid("words", lambda words: "" not in words), "some words"] = (),
        colour: Annotated[str, choice(["red", "blue"])] = "red",
        amounts: Annotated[
            Mapping[Name, Annotated[int, Valid("an amount", bool)]], Valid("amounts")
        ] = NOTHING,
        options: Annotated[dict[str, object], "what is not parsed"] = NOTHING,  # type: ignore[assignment]
        now: Annotated[bool, "true for at once"] = False,
    ) -> object:
        return [count, share, words, colour, amounts, options, now]


async def shown(args: dict[str, object]) -> Any:
    methods = Methods()
    methods.add(*methods_of(Subject()))
    return await methods.run("show", args, None)


def test_describes_the_arguments() -> None:
    (declared,) = methods_of(Subject())
    assert declared.arguments == {
        "count": "a count",
        "share": "a share; optional",
        "words": "some words; optional",
        "colour": "red or blue; optional",
        "amounts": "amounts; optional",
        "options": "what is not parsed; optional",
        "now": "true for at once; optional",
    }


async def test_arguments_have_their_types_and_defaults() -> None:
    assert await shown({"count": 0}) == [0, None, (), "red", {}, {}, False]
    assert type((await shown({"count": 0, "share": 2}))[1]) is float
    args = {
        "count": 2,
        "words": ["a"],
        "colour": "blue",
        "amounts": {"x": 1},
        "options": {"": None},
        "now": True,
    }
    assert await shown(args | {"share": None}) == [2, None, ("a",), "blue", {"x": 1}, {"": None}, True]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"count": None}, "count: expected a whole number"),
        ({"share": False}, "share: expected a number"),
        ({"words": "a"}, "words: expected words"),
        ({"words": [""]}, "words: expected words"),
        ({"colour": "green"}, "colour: expected red or blue"),
        ({"amounts": []}, "amounts: expected amounts"),
        ({"amounts": {"": 1}}, "amounts: expected a name"),
        ({"amounts": {"x": 0}}, "amounts: x: expected an amount"),
        ({"options": 1}, "options: expected an object"),
        ({"then": 1}, "there is no argument 'then'"),
    ],
)
async def test_refuses_wrong_arguments(args: dict[str, object], told: str) -> None:
    with pytest.raises(RefusalError) as caught:
        await shown({"count": 1} | args)
    assert caught.value.kind is Refusal.ARGUMENTS
    assert str(caught.value) == f"show: {told}"


async def test_refuses_calls_without_a_required_argument() -> None:
    with pytest.raises(RefusalError, match="show: count: expected a whole number"):
        await shown({})
