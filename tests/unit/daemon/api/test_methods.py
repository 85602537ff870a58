"""The declarations of the methods."""

from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.sources.ssconf import Ssconf
from htoolsd.api.parts import ReloadStatus
from htoolsd.process.compose import Parts
from htoolsd.socket.methods import Methods
from tests.support.settings import settings


@pytest.fixture
def methods(tmp_path: Path) -> Methods:
    known = settings(state_dir=str(tmp_path), ledger="sqlite://")
    return Parts(known, Ssconf("node1", str(tmp_path)), ReloadStatus()).methods


async def test_methods_have_descriptions_and_functions_of_their_own(methods: Methods) -> None:
    listed: Any = await methods.run("methods", {}, None)
    for each in listed:
        assert each["version"] >= 1
        assert each["doc"].endswith(".")
        assert all(each["arguments"].values())
    found = [methods.find(each["name"]) for each in listed]
    assert len({method.run for method in found if method is not None}) == len(listed) > 20
