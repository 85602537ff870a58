import shlex

import pytest

from ganeti_htools.cli.report.keys import lines


@pytest.mark.parametrize(
    ("value", "written"),
    [("1.5", "1.5"), ("abc", "abc"), ("", ""), ("a b", "'a b'"), ("-1", "'-1'"), ("a,b", "'a,b'")],
)
def test_values_are_shell_words(value: str, written: str) -> None:
    assert lines("HTS", [("free_mem", value)]) == f"HTS_FREE_MEM={written}\n"
    assert shlex.split(written or "''") == [value]


def test_each_pair_is_a_line() -> None:
    assert lines("HCHECK", [("ok", "1"), ("x", "2")]) == "HCHECK_OK=1\nHCHECK_X=2\n"
    assert lines("HCHECK", []) == ""
