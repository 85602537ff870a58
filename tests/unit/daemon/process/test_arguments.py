"""The command line of the daemon."""

from dataclasses import fields, is_dataclass

import pytest

from htoolsd.config.config import Config, argument_parser


def test_missing_options_come_from_the_configuration() -> None:
    given = vars(argument_parser().parse_args([]))
    keys = {key.name for key in fields(Config)}
    assert {name: value for name, value in given.items() if name in keys} == {
        "socket": None,
        "state_dir": None,
        "luxi": None,
    }
    assert given.keys() - keys == {"config", "stay", "check_config", "online", "socket_fd"}


def test_every_key_of_the_configuration_is_in_the_help() -> None:
    text = argument_parser().format_help()
    for key in fields(Config):
        end = f".{fields(key.default)[0].name}" if is_dataclass(key.default) else ""
        assert f"\n  {key.name}{end} = " in text


@pytest.mark.parametrize("word", ["--stat=x", "--sta", "x"])
def test_options_are_whole_words(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        argument_parser().parse_args([word])
    assert caught.value.code == 2
    assert f"unrecognized arguments: {word}" in capsys.readouterr().err
