from base64 import b64encode
from typing import Any

import numpy as np
import orjson
import pytest

from ganeti_htools.backends import load_profiles
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.load import HOURS, LoadProfile


def _profile(scale: float = 1.0) -> LoadProfile:
    hours = np.arange(4 * HOURS).reshape(4, HOURS) * scale / 128
    return LoadProfile(hours, 2 * hours, np.array([1.5, 4096.0, 0.0, 0.25]))


def test_profiles_are_read_as_written_and_take_less_than_8_kib() -> None:
    profiles = {"web": _profile(), "db": _profile(3)}
    content = orjson.dumps(load_profiles.to_json(profiles))
    assert len(content) < len(profiles) * 8192
    found = load_profiles.from_json(orjson.loads(content))
    assert list(found) == ["web", "db"]
    for name, each in profiles.items():
        for figures in ("mean", "peak", "last"):
            np.testing.assert_array_equal(getattr(found[name], figures), getattr(each, figures))


@pytest.mark.parametrize("wrong", ["?", "é", "AAAA", b64encode(np.full(4, -1, "<f4").tobytes()).decode(), 7])
def test_an_error_names_instance_and_figure(wrong: Any) -> None:
    document: Any = load_profiles.to_json({"web": _profile()})
    document["web"]["last"] = wrong
    with pytest.raises(DataError, match=r"^load of instance web: key 'last': .* expected"):
        load_profiles.from_json(document)
