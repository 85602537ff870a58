"""The files of the challenge: a model, and an assignment of processes to machines; numbers in white space."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from bench.roadef.problem import Balance, Machine, Problem, Process, Resource, Service, Weights


class FileError(Exception):
    """A file that is not as the challenge describes it; the text names file and line."""


class _Numbers:
    """The numbers of a file, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self._words = self._read()

    def _read(self) -> Iterator[str]:
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            self.line = number
            yield from line.split()

    def fail(self, reason: str) -> NoReturn:
        """Refuse the file at the present line."""
        raise FileError(f"{self.path}:{self.line}: {reason}")

    def one(self, what: str, below: int | None = None) -> int:
        """Read a number; it must not be negative, and must be ``below`` a limit."""
        word = next(self._words, None)
        if word is None:
            self.fail(f"the file ends before {what}")
        if not word.isdecimal():
            self.fail(f"{what} must be a whole number, not {word!r}")
        if below is not None and int(word) >= below:
            self.fail(f"{what} must be below {below}, not {word}")
        return int(word)

    def some(self, number: int, what: str, below: int | None = None) -> list[int]:
        """Read so many numbers."""
        return [self.one(what, below) for _ in range(number)]

    def end(self) -> None:
        """Refuse anything more."""
        if (word := next(self._words, None)) is not None:
            self.fail(f"the file should end here, not go on with {word!r}")


def read_problem(model: Path, assignment: Path) -> Problem:
    """Read a problem. Raises FileError, and OSError."""
    numbers = _Numbers(model)
    resources = [
        Resource(bool(numbers.one("transient or not", 2)), numbers.one("a weight of load"))
        for _ in range(numbers.one("the number of resources"))
    ]
    size, many = len(resources), numbers.one("the number of machines")
    machines = [
        Machine(
            numbers.one("a neighbourhood"),
            numbers.one("a location"),
            numbers.some(size, "a capacity"),
            numbers.some(size, "a safety capacity"),
            numbers.some(many, "a cost of moves"),
        )
        for _ in range(many)
    ]
    number = numbers.one("the number of services")
    services = [
        Service(
            numbers.one("a spread"),
            numbers.some(numbers.one("the number of services that one needs"), "a service", number),
        )
        for _ in range(number)
    ]
    processes = [
        Process(
            numbers.one("a service", number),
            numbers.some(size, "a requirement"),
            numbers.one("a cost of moves"),
        )
        for _ in range(numbers.one("the number of processes"))
    ]
    balances = [
        Balance(
            numbers.one("a resource", size),
            numbers.one("a resource", size),
            numbers.one("a target"),
            numbers.one("a weight"),
        )
        for _ in range(numbers.one("the number of balance costs"))
    ]
    weights = Weights(*numbers.some(3, "a weight of moves"))
    numbers.end()
    return Problem(
        resources, machines, services, processes, balances, weights,
        read_assignment(assignment, len(processes), many),
    )  # fmt: skip


def read_assignment(path: Path, processes: int, machines: int) -> list[int]:
    """Read the machines of so many processes. Raises FileError, and OSError."""
    numbers = _Numbers(path)
    found = numbers.some(processes, "a machine", machines)
    numbers.end()
    return found


def assignment_text(machines: Sequence[int]) -> str:
    """Write the machines of processes as a file of the challenge has them."""
    return " ".join(map(str, machines)) + "\n"
