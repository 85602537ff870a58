"""What can be asked for, and what of it is refused."""

from typing import Any

import pytest

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.socket.methods import LONGEST, Args, File, Method, Methods, method, words
from htoolsd.socket.roles import Role


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
    ("name", "args", "kind"),
    [
        ("x" * 1000, {}, Refusal.METHOD),
        ("say", {"x" * 1000: 1}, Refusal.ARGUMENTS),
        ("methods", {"word": 1}, Refusal.ARGUMENTS),
    ],
)
async def test_refuses_unknown_methods_and_arguments_briefly(
    methods: Methods, name: str, args: dict[str, object], kind: Refusal
) -> None:
    with pytest.raises(RefusalError) as caught:
        await methods.run(name, args, None)
    assert caught.value.kind is kind
    assert len(str(caught.value)) < 200


def test_words_return_the_command_line() -> None:
    assert words("decide", {}) == []
    assert words("decide", {"arguments": ["--a", "b"]}) == ["--a", "b"]
    assert words("decide", {"arguments": ["x" * LONGEST]}) == ["x" * LONGEST]


@pytest.mark.parametrize("given", ["--a", [1], [["--a"]], None, ["x" * LONGEST, "y"]])
def test_refuses_arguments_that_are_not_words(given: object) -> None:
    with pytest.raises(RefusalError, match="decide: arguments: ") as caught:
        words("decide", {"arguments": given})
    assert caught.value.kind is Refusal.ARGUMENTS
