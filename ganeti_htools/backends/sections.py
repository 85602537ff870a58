"""Sections of text files: lines of ``|``-separated columns, and errors that name file and line."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError

T = TypeVar("T")
Kind = TypeVar("Kind", bound=Enum)


@dataclass(frozen=True, slots=True)
class SectionFormat:
    """The columns of a section. The last columns, which older files lack, have defaults."""

    kind: str
    section: str
    columns: tuple[str, ...]
    defaults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionLine:
    """A line of a section: its fields by column. Readers raise DataError."""

    place: str
    kind: str
    fields: dict[str, str]

    def error(self, column: str, problem: object) -> DataError:
        return DataError(
            f"{self.place}: {self.kind} {values.quote(self.fields['name'])}: {column}: {problem}"
        )

    def read(self, column: str, reader: Callable[[str], T]) -> T:
        try:
            return reader(self.fields[column])
        except DataError as error:
            raise self.error(column, error) from error

    def whole(self, column: str) -> int:
        """A whole number from 0 up."""
        return self.read(column, values.whole)

    def signed(self, column: str) -> int:
        """Return a free amount; it is negative if more is used than exists."""
        return self.read(column, lambda text: values.whole(text, -MAX_MIB))

    def number(self, column: str) -> float:
        """A number from 0 up."""
        return self.read(column, values.number)

    def name(self, column: str = "name") -> str:
        """A name, which is not empty."""
        return self.read(column, _name)

    def existing(self, column: str, kind: str, names: Container[str]) -> str:
        """Return a name that must be among ``names`` of objects of this ``kind``."""
        name = self.fields[column]
        if name not in names:
            raise DataError(
                f"{self.place}: {column}: Unknown {kind} {values.quote(name)} for {self.kind} {self.name()}"
            )
        return name

    def names(self, column: str) -> tuple[str, ...]:
        return values.several(self.fields[column], ",")

    def member(self, column: str, kind: type[Kind]) -> Kind:
        return self.read(column, lambda text: values.member(text, kind))

    def choice(self, column: str, choices: Mapping[str, T]) -> T:
        return self.read(column, lambda text: values.choice(text, choices))


def split_sections(text: str) -> list[list[tuple[int, str]]]:
    """Split a text at empty lines into sections of numbered lines."""
    lines = text.removesuffix("\n").split("\n")
    sections: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(lines, 1):
        if line:
            sections[-1].append((number, line))
        else:
            sections.append([])
    return sections if text else []


def parse_lines(source: str, table: SectionFormat, lines: Iterable[tuple[int, str]]) -> Iterator[SectionLine]:
    """Yield the lines of a section; ``source`` names the text in errors. Raises DataError."""
    required = len(table.columns) - len(table.defaults)
    for number, line in lines:
        place = f"{source}: {table.section} section, line {number}"
        fields = line.split("|")
        if len(fields) < required:
            raise DataError(
                f"{place}: Invalid/incomplete {table.kind} data: {values.quote(line)} has"
                f" {len(fields)} columns, expected at least {required}"
            )
        fields += table.defaults[len(fields) - required :]
        yield SectionLine(place, table.kind, dict(zip(table.columns, fields, strict=False)))


def _name(text: str) -> str:
    if not text or not text.isprintable():
        raise DataError(f"expected a name, not {values.quote(text)}")
    return text
