import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.model import errors
from ganeti_htools.model.errors import LONGEST, DataError, on_one_line


def test_printable_text_is_unchanged() -> None:
    assert on_one_line("node 'a.example.org': größer") == "node 'a.example.org': größer"


def test_escapes_unprintable_text_and_cuts_middle_of_long_text() -> None:
    assert str(DataError("a\nb\x00\udcff")) == "a\\nb\\x00\\udcff"
    text = str(DataError(f"node '{'x' * 10**6}': key 'a'"))
    assert text.startswith("node 'xxx")
    assert text.endswith("xxx': key 'a'")
    assert len(text) == LONGEST + 5


@given(st.text())
def test_any_text_is_one_printable_line(text: str) -> None:
    assert on_one_line(text).isprintable()


def test_inconsistencies_are_listed() -> None:
    assert errors.inconsistency_warning([]) == ""
    assert (
        errors.inconsistency_warning(["a", "b"])
        == "Warning: cluster has inconsistent data:\n  - a\n  - b\n\n"
    )


def test_error_is_prefixed_with_task() -> None:
    with pytest.raises(errors.HtoolsError, match=r"^loading: no file$"), errors.during("loading"):
        raise errors.DataError("no file")
