"""What arguments of options say. All raise DataError for text that says nothing."""

from collections.abc import Callable

from ganeti_htools.backends import units, values
from ganeti_htools.model import tags
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return values.several(text, ",")


def fields(text: str) -> tuple[str, ...]:
    """Names of fields; the first is ``+`` if they are wanted beside the usual ones."""
    return ("+", *names(text[1:])) if text.startswith("+") else names(text)


def yes_no(text: str) -> bool:
    """Whether it is wanted, which it is without argument."""
    return values.choice(text or "yes", {"yes": True, "no": False})


def ratio(text: str) -> float:
    """A number above 0."""
    found = values.number(text)
    if not found:
        raise DataError(f"expected a ratio above 0, not {values.shown(text)}")
    return found


def priority(text: str) -> str:
    """A priority of jobs."""
    if text not in ("low", "normal", "high"):
        raise DataError(f"Unknown priority {values.shown(text)}, expected low, normal or high")
    return text


def spec(name: str) -> Callable[[str], tuple[int, ...]]:
    """A reader of instance sizes: disk and memory (MiB), CPUs, and spindles, which are 1 unless given."""
    readers = {"disk": values.size, "memory": values.size, "cpus": values.whole, "spindles": values.whole}

    def read(text: str) -> tuple[int, ...]:
        parts = text.split(",")
        if len(parts) not in (3, 4):
            raise DataError(
                f"Invalid {name} specification: {values.shown(text)}, expected disk,ram,cpu[,spindles]"
            )
        given = [
            values.read(reader, part, f"{name} specs {field}")
            for (field, reader), part in zip(readers.items(), parts, strict=False)
        ]
        return (*given, 1)[:4]

    return read


def storage_unit(text: str) -> DesiredUnit:
    """A storage unit: TYPE,KEY."""
    parts = text.split(",")
    if len(parts) != 2:
        raise DataError(f"expected TYPE,KEY, not {values.shown(text)}")
    return units.named(*parts)


def disk(text: str) -> tuple[int, DesiredUnit | None]:
    """The size (MiB) of a disk, and the unit that it is on, if that is given."""
    size, _, unit = text.partition(",")
    return values.size(size), storage_unit(unit) if unit else None


def demand(text: str) -> tuple[str, int]:
    """How much an instance demands of a custom resource class, as in its tags."""
    found = tags.demands([f"{tags.RESOURCE}{text}"])
    if not found:
        raise DataError(f"expected CLASS:AMOUNT such as CUSTOM_GPU:1, not {values.shown(text)}")
    return next(iter(found.items()))
