import pytest

from ganeti_htools.commandline.line import CommandLine, Program
from ganeti_htools.commandline.programs import PROGRAMS


def test_programs_are_found_by_name() -> None:
    assert all(program.name == name for name, program in PROGRAMS.items())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_names_of_options_are_unique(program: Program) -> None:
    assert {CommandLine.help, CommandLine.version} <= set(program.all_options)
    names = [name for option in program.all_options for name in (option.short, option.long) if name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_added_options_leave_abbreviations_of_ganetis_alone(program: Program) -> None:
    ganetis = program._replace(added=())
    prefixes = {o.long[:end] for o in ganetis.all_options for end in range(1, len(o.long) + 1)}
    changed = {prefix for prefix in prefixes if program.named(prefix) != ganetis.named(prefix)}
    assert changed == ({"disk"} if program.name == "hspace" else set())  # docs/differences.md, hspace
