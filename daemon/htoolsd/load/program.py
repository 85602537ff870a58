"""Load that a program of the administrator prints, a line ``INSTANCE CORES BYTES BYTES/S BYTES/S`` each."""

import numpy as np

from ganeti_htools import machine
from ganeti_htools.backends.values import quote
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.errors import DataError
from ganeti_htools.programs import output_of
from htoolsd.config.load import LoadSettings
from htoolsd.load.figures import SCALE, LoadError, LoadNames, LoadSample, SampledHours

_MOST = 1 << 22  # bytes of output
_LINE = "INSTANCE CORES BYTES BYTES/S BYTES/S"


def loads_of(output: str, names: LoadNames) -> dict[str, Floats]:
    """Return load by instance. Lines of unknown instances are left out. Raises DataError."""
    found = dict[str, Floats]()
    for place, line in enumerate(output.splitlines(), 1):
        short, *words = line.split() or [""]
        try:
            figures = [float(word) for word in words]
        except ValueError:
            figures = []
        if len(figures) != len(SCALE):
            raise DataError(f"line {place}: got {quote(line)}; expected {_LINE}")
        if (name := names.instances.get(short)) is None:
            continue
        if name in found:
            raise DataError(f"line {place}: got a second line for {name}; expected one for each instance")
        found[name] = np.array(figures) / SCALE
    if not found:
        raise DataError(f"got no line of an instance; expected {_LINE}")
    return found


class LoadProgram(SampledHours):
    """The program of the settings as a source of load."""

    def __init__(self, settings: LoadSettings) -> None:
        super().__init__()
        self._settings = settings

    async def sample(self, names: LoadNames) -> LoadSample:
        """Return the present load. Raises LoadError."""
        program = self._settings.program
        try:
            output = await output_of([program], self._settings.timeout_seconds, _MOST, f"lines {_LINE}")
            found = loads_of(output.decode(errors="replace"), names)
        except DataError as error:
            raise LoadError([f"{program}: {str(error).removeprefix(f'{program}: ')}"]) from None
        self.add(machine.now(), found)
        return LoadSample(found, {}, {})
