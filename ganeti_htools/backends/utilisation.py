"""Files of dynamic utilisation (``hbal(1)``, option ``-U``): lines ``INSTANCE CPU MEMORY DISK NET``."""

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import Load
from ganeti_htools.model.errors import DataError

_FIGURES = ("cpu", "memory", "disk", "net")


def parse(text: str, source: str) -> dict[str, Load]:
    """Return loads by instance name; the last line of an instance counts. Raises DataError."""
    loads = {}
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{source}: line {number}"
        fields = line.split()
        if len(fields) != 5:
            raise DataError(
                f"{place}: Cannot parse line {values.quote(line)}, expected INSTANCE CPU MEMORY DISK NET"
            )
        name, *figures = fields
        loads[name] = Load(
            *(
                values.read(values.number, text, place, f"instance {values.quote(name)}", field)
                for field, text in zip(_FIGURES, figures, strict=True)
            )
        )
    return loads
