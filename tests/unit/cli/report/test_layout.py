from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.cli.report import layout

cells = st.text("ab1 ", max_size=5)


@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_cells_of_a_column_stand_below_each_other(rows: list[list[str]], numeric: list[bool]) -> None:
    lines = layout.table(rows[0], rows[1:], numeric).split("\n")
    assert lines.pop() == ""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for line, row in zip(lines, rows, strict=True):
        for cell, width, right in zip(row, widths, numeric, strict=True):
            assert line[0] == " "
            found, line = line[1 : 1 + width], line[1 + width :]
            assert found == (" " * (width - len(cell)) + cell if right else cell + " " * (width - len(cell)))
        assert not line
