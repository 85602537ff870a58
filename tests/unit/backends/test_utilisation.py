import pytest

from ganeti_htools.backends import utilisation
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.errors import DataError


def test_loads_by_instance_and_the_last_line_counts() -> None:
    content = "a 1 2 3 4\nb 0 0.5 1e-3 7\na  5 6 7 8\n"
    assert utilisation.parse(content, "u") == {"a": Load(5, 6, 7, 8), "b": Load(0, 0.5, 0.001, 7)}
    assert utilisation.parse("", "u") == {}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("a", "Cannot parse line 'a', expected INSTANCE CPU MEMORY DISK NET"),
        ("", "Cannot parse line ''"),
        ("a b c d e f g h", "Cannot parse line 'a b c d e f g h'"),
        ("inst cpu 1 1 1", "instance 'inst': cpu: cannot parse string 'cpu'"),
        ("inst 1 1 NaN 1", "instance 'inst': disk: cannot parse string 'NaN'"),
        ("inst 1 1 1 -1", "instance 'inst': net: cannot parse string '-1'"),
    ],
)
def test_an_error_names_the_line_and_the_field(line: str, error: str) -> None:
    with pytest.raises(DataError, match=f"^u: line 2: {error}"):
        utilisation.parse(f"a 1 1 1 1\n{line}\n", "u")
