import re

import pytest

from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.programs import HAIL, HREGROUP
from ganeti_htools.commandline.reading import Reply, parse_or_exit, read


def line(*argv: str) -> CommandLine:
    result = read(HAIL, argv)
    assert isinstance(result, CommandLine)
    return result


def reply(*argv: str) -> Reply:
    result = read(HAIL, argv)
    assert isinstance(result, Reply)
    return result


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), CommandLine()),
        (("file",), CommandLine(("file",))),
        (("-",), CommandLine(("-",))),
        (("-t", "a"), CommandLine(text_data="a")),
        (("-ta",), CommandLine(text_data="a")),
        (("-t", "-v"), CommandLine(text_data="-v")),
        (("--text-data=a=b",), CommandLine(text_data="a=b")),
        (("--text-data", "a"), CommandLine(text_data="a")),
        (("--text-data=",), CommandLine(text_data="")),
        (("-t", "a", "-t", "b"), CommandLine(text_data="b")),
        (("-vv", "--verbose"), CommandLine(verbose=4)),
        (("-vtfile", "x", "-v"), CommandLine(("x",), text_data="file", verbose=3)),
        (("x", "--", "-v", "--"), CommandLine(("x", "-v", "--"))),
        (("-v-", "-v"), CommandLine(("-v",), verbose=2)),
        (("--simu", "p,1,1,1,1"), CommandLine(simulate=("p,1,1,1,1",))),
        (("--simulate=a", "--simulate=b"), CommandLine(simulate=("b", "a"))),
        (
            ("--simulate=a", "--simulate-storage", "b", "--simulate=c", "--simulate-storage=d"),
            CommandLine(simulate=("c;d", "a;b")),
        ),
        (("--no-cap",), CommandLine(no_capacity_checks=True)),
        (("--no-capacity-checks=", "--mond-xen="), CommandLine(no_capacity_checks=True, mond_xen=True)),
        (("-p",), CommandLine(print_nodes=())),
        (("-p", "name"), CommandLine(("name",), print_nodes=())),
        (("--print-nodes=",), CommandLine(print_nodes=())),
        (("-pname,idx",), CommandLine(print_nodes=("name", "idx"))),
        (("--print-nodes=+ptags,rcpu",), CommandLine(print_nodes=("+", "ptags", "rcpu"))),
        (("--mond",), CommandLine(mond=True)),
        (("--mond=",), CommandLine(mond=True)),
        (("--mond=yes", "--mond-xen"), CommandLine(mond=True, mond_xen=True)),
        (("--mond", "--mond=no"), CommandLine()),
        (("--restrict-allocation-to=a,b",), CommandLine(restrict_allocation_to=("a", "b"))),
        (("--restrict-allocation-to", ""), CommandLine(restrict_allocation_to=())),
        (("--static-kvm-node-memory=0",), CommandLine(static_kvm_node_memory=0)),
        (("-Sout", "-U", "u"), CommandLine(save="out", dynu_file="u")),
        (("--mond-data=m", "--exit-on"), CommandLine(mond_data="m", exit_on_missing_mond_data=True)),
        (
            ("--ignore-d", "--ignore-s", "--accept"),
            CommandLine(ignore_dynu=True, ignore_soft_errors=True, accept_existing_errors=True),
        ),
    ],
)
def test_what_is_given_is_understood(argv: tuple[str, ...], expected: CommandLine) -> None:
    assert line(*argv) == expected


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("--foo",), "unrecognized option `--foo'\n"),
        (("--foo=7",), "unrecognized option `--foo=7'\n"),
        (("-z",), "unrecognized option `-z'\n"),
        (("-vz",), "unrecognized option `-z'\n"),
        (("-t",), "option `-t' requires an argument FILE\n"),
        (("-vt",), "option `-t' requires an argument FILE\n"),
        (("--simulate",), "option `--simulate' requires an argument SPEC\n"),
        (("--simu",), "option `--simu' requires an argument SPEC\n"),
        (("--verbose=3",), "option `--verbose' doesn't allow an argument\n"),
        (
            ("--foo", "-z", "x", "-t"),
            "option `-t' requires an argument FILE\nunrecognized option `--foo'\nunrecognized option `-z'\n",
        ),
        (
            ("--ignore",),
            "option `--ignore' is ambiguous; could be one of:\n"
            f"    --ignore-dynu         {CommandLine.ignore_dynu.help}\n"
            f"    --ignore-soft-errors  {CommandLine.ignore_soft_errors.help}\n",
        ),
    ],
)
def test_error_leads_to_help_in_one_more_line(argv: tuple[str, ...], error: str) -> None:
    assert reply(*argv) == (2, f"Command line error: {error}hail --help lists the options\n")


def test_error_names_the_nearest_option() -> None:
    advice = reply("--expalin=web", "--max-mvoes=3").text.splitlines()[-1]
    assert advice == "did you mean --max-moves? hail --help lists the options"


def test_storage_belongs_to_a_simulated_group() -> None:
    result = reply("--simulate-storage=lvm-vg,ssdvg,1g", "--simulate=a")
    assert (result.status, result.text) == (
        1,
        "Error while parsing command line arguments:\n--simulate-storage: expected a --simulate before it\n",
    )


def test_an_abbreviation_means_an_option_of_ganeti_or_else_one_of_ours() -> None:
    assert line("--simulat=a", "--simulate-st=b") == CommandLine(simulate=("a;b",))
    assert "option `--max' is ambiguous" in reply("--max=1").text


def test_help_has_purpose_and_options_under_headings_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    tool = Program(
        "tool",
        "show what there is",
        (CommandLine.print_nodes, CommandLine.text_data, CommandLine.mond, CommandLine.simulate),
    )
    result = read(tool, ["-h"])
    assert isinstance(result, Reply)
    title, usage, purpose, *table = result.text.splitlines()
    assert title.startswith("tool (htoolsd)")
    assert usage == "Usage: tool [OPTION...]"
    assert purpose == "Show what there is."
    assert table[:3] == [
        "",
        "Source of the cluster:",
        "  -t FILE     --text-data=FILE        read the cluster from this text file",
    ]
    assert table[6:14] == [
        "",
        "Load of instances:",
        "              --mond[=CHOICE]         ask all monitoring daemons for dynamic",
        "                                      data (yes) or none (no)",
        "",
        "Reports:",
        "  -p[FIELDS]  --print-nodes[=FIELDS]  list the nodes before and after: FIELDS,",
        "                                      or +FIELDS besides the usual fields",
    ]
    words = " ".join(" ".join(table).split())
    assert all(f"--{option.long}" in words and option.help in words for option in tool.all_options)
    assert result.status == 0


def test_the_version_is_told() -> None:
    result = reply("--version")
    assert result.status == 0
    assert re.match(
        r"hail \(htoolsd\).*, (commit \w+|files) of [-\d]{10}\nrunning with Python 3\.\d+\.\d+ on \w+\n",
        result.text,
    )


def test_completion_is_told_for_all_options_and_arguments() -> None:
    result = reply("--help-completion")
    assert result.status == 0
    lines = result.text.splitlines()
    assert lines[0] == "-p,--print-nodes none"
    assert "--mond choices=yes,no" in lines
    assert lines[-1] == "file 1 1"
    assert len(lines) == len(HAIL.all_options) + 1


def test_a_reply_is_printed_and_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_or_exit(HAIL, ["x"]) == CommandLine(("x",))
    with pytest.raises(SystemExit) as help_asked:
        parse_or_exit(HAIL, ["--help"])
    assert help_asked.value.code == 0
    assert capsys.readouterr() == (reply("--help").text, "")
    with pytest.raises(SystemExit) as misspelt:
        parse_or_exit(HAIL, ["--hlep"])
    assert misspelt.value.code == 2
    assert capsys.readouterr() == ("", reply("--hlep").text)


def test_help_lists_actions_before_options() -> None:
    result = read(HREGROUP, ["--help"])
    assert isinstance(result, Reply)
    usage, _purpose, _, heading, *table = result.text.splitlines()[1:]
    assert (usage, heading) == ("Usage: hregroup [OPTION...] ACTION", "Actions:")
    actions = [line.split()[0] for line in table[: table.index("")]]
    assert actions == ["groups", "redistribute", "compress", "balance"]
