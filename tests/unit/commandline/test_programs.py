import pytest

from ganeti_htools.commandline.option import HELP, VERSION, Program
from ganeti_htools.commandline.programs import PROGRAMS


def test_programs_are_found_by_name() -> None:
    assert all(program.name == name for name, program in PROGRAMS.items())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_every_option_of_a_program_has_names_of_its_own(program: Program) -> None:
    assert {HELP, VERSION} <= set(program.all_options)
    names = [name for option in program.all_options for name in (option.short, option.long) if name]
    assert len(names) == len(set(names))
