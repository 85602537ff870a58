"""Reports have room for whole lines."""

import pytest

from ganeti_htools import streams


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "width", lambda: 1000)
