"""Measured load in JSON: an object for each instance, ``{"mean": HOURS, "peak": HOURS, "last": FIGURES}``.

HOURS are numbers by kind of load and hour of the week, FIGURES by kind of load: little-endian, of single
precision, in base64. A profile takes less than 8 KiB.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from ganeti_htools.backends.fields import Fields
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.load import HOURS, LOAD_KINDS, LoadProfile

_SINGLE = np.dtype("<f4")
_KINDS = (len(LOAD_KINDS),)
_SHAPES = {"mean": (*_KINDS, HOURS), "peak": (*_KINDS, HOURS), "last": _KINDS}


def from_json(document: Mapping[str, Any]) -> dict[str, LoadProfile]:
    """Read profiles by instance name. Raises DataError naming the instance and the figure."""
    return {name: _profile(Fields(f"load of instance {name}", each)) for name, each in document.items()}


def _profile(fields: Fields) -> LoadProfile:
    return LoadProfile(**{key: _figures(fields, key, shape) for key, shape in _SHAPES.items()})


def _figures(fields: Fields, key: str, shape: tuple[int, ...]) -> Floats:
    try:
        found = np.frombuffer(b64decode(fields.text(key), validate=True), _SINGLE).reshape(shape)
        if ((found >= 0) & (found < np.inf)).all():
            return found.astype(np.float64)
    except ValueError:
        pass
    size = " x ".join(map(str, shape))
    raise fields.wrong(key, "figures", f"{size} numbers of at least 0, of single precision in base64")


def to_json(profiles: Mapping[str, LoadProfile]) -> dict[str, dict[str, str]]:
    """Write profiles by instance name."""
    return {
        name: {key: b64encode(getattr(each, key).astype(_SINGLE).tobytes()).decode() for key in _SHAPES}
        for name, each in profiles.items()
    }
