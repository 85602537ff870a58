"""Markup: everything is escaped once."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.model.errors import printable
from ganeti_htools.pages.markup import Markup, element, escaped, table


class Recorder(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(), st.text())
def test_any_text_stays_text(content: str, attribute: str) -> None:
    found = Recorder(element("p", content, aria_label=attribute))
    assert found.elements == ["p"]
    assert "".join(found.texts) == printable(content)
    assert found.attributes == [("aria-label", printable(attribute))]


@pytest.mark.parametrize("mark", ["\u202e", "\u200f", "\u2066", "\x00", "\x1b", "\ud800"])
def test_marks_of_direction_and_control_characters_become_visible(mark: str) -> None:
    assert mark not in escaped(f"node{mark}1")
    assert escaped(f"node{mark}1").encode().startswith(b"node\\")


def test_markup_is_not_escaped_again() -> None:
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert escaped(Markup("<i>")) == "<i>"


def test_attribute_none_is_left_out() -> None:
    assert element("p", class_=None, id="a") == '<p id="a"></p>'


def test_table_names_its_rows_and_columns() -> None:
    found = table("sizes", ("Node", "MiB"), [("<a>", "5")], (False, True))
    assert '<th scope="col" class="number">MiB</th>' in found
    assert '<th scope="row">&lt;a&gt;</th><td class="number">5</td>' in found
