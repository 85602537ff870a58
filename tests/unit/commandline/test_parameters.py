import pytest

from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.commandline.parameters import parse_options, placement_options
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.commandline.reading import parse_or_exit
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions

WORDS = [
    *("--no-capacity-checks", "--accept-existing-errors", "--ignore-soft-errors"),
    *("--restrict-allocation-to=a,b", "--static-kvm-node-memory=7"),
]
WISHED = PlacementOptions(
    capacity=False,
    accept_existing=True,
    ignore_soft_errors=True,
    restrict_to=("a", "b"),
    static_kvm_node_memory=7,
)


def test_a_command_line_and_parameters_ask_for_the_same() -> None:
    assert placement_options(parse_or_exit(HAIL, WORDS)) == parse_options(WORDS) == WISHED
    assert placement_options(CommandLine()) == parse_options([]) == PlacementOptions()


def test_explain_is_no_parameter_of_an_iallocator() -> None:
    with pytest.raises(UsageError, match=r"^--explain is for the hail program itself$"):
        parse_options(["--explain"])


def test_what_is_wrong_with_a_parameter_is_told_on_one_line() -> None:
    with pytest.raises(
        UsageError, match=r"^Error while .*: --static-kvm-node-memory: cannot parse string 'x'"
    ):
        parse_options(["--static-kvm-node-memory=x"])


def test_what_reads_or_writes_files_is_no_parameter() -> None:
    words = ["--json", "-Ufile", "--mond", "--mond-data=file", "-p", "-Sfile", "--simulate=a", "-tfile", "-v"]
    for word in words:
        with pytest.raises(UsageError, match=r"^--[a-z-]+ is for the hail program itself$"):
            parse_options([word])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--help"], "expected parameters only"),
        (["file"], "unexpected argument 'file'"),
        (["--nosuch"], "Command line error: unrecognized option `--nosuch'"),
    ],
)
def test_what_is_no_parameter_at_all(words: list[str], error: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options(words)
    assert str(raised.value) == error
