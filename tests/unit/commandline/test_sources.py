import pytest

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.sources import dynamic_load_of, source_of
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.sources.dynamic_load import DynamicLoad
from ganeti_htools.sources.source import Source


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (CommandLine(), Source()),
        (CommandLine(luxi=""), Source(luxi="")),
        (CommandLine(daemon="/socket"), Source(daemon="/socket")),
        (CommandLine(master="host", rapi_ca="file"), Source(rapi="host", rapi_ca="file")),
        (
            CommandLine(master="host", rapi_credentials="file"),
            Source(rapi="host", rapi_credentials="file"),
        ),
        (CommandLine(text_data="file"), Source(text="file")),
        (CommandLine(simulate=("p,1,1,1,1",)), Source(simulate=("p,1,1,1,1",))),
        (CommandLine(ialloc_src="request"), Source(request="request")),
        (CommandLine(luxi="", state_of_record=True), Source(luxi="", state_of_record=True)),
    ],
)
def test_each_option_is_a_source(line: CommandLine, source: Source) -> None:
    assert source_of(line) == source


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (CommandLine(luxi="", master="host"), "rapi, luxi, and data files"),
        (CommandLine(luxi="a", text_data="b"), "rapi, luxi, and data files"),
        (CommandLine(master="a", text_data="b"), "rapi, luxi, and data files"),
        (CommandLine(daemon="", text_data="b"), "rapi, luxi, daemon, and data files"),
    ],
)
def test_only_one_source_is_given(given: CommandLine, named: str) -> None:
    with pytest.raises(HtoolsError) as raised:
        source_of(given)
    assert str(raised.value) == f"Only one of the {named} options should be given."


def test_the_load() -> None:
    assert dynamic_load_of(CommandLine()) == DynamicLoad()
    line = CommandLine(dynu_file="file", mond=True, mond_data="reports", mond_xen=True)
    assert dynamic_load_of(line) == DynamicLoad("file", mond=True, mond_data="reports", xen=True)
    line = CommandLine(ignore_dynu=True, exit_on_missing_mond_data=True)
    assert dynamic_load_of(line) == DynamicLoad(ignore=True, all_required=True)
