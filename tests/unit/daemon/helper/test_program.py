"""A cluster and more values handed to the helper's process."""

from dataclasses import replace
from io import BufferedReader, BytesIO

import pytest

from ganeti_htools.model.types import DiskTemplate
from htoolsd.helper.program import decode, encode
from tests.support import by_hand
from tests.support.by_hand import instance


@pytest.mark.parametrize("number", [0, 1, 200, 401])
def test_values_are_the_same_in_the_other_process(number: int) -> None:
    rows = [instance(f"i{index}", DiskTemplate.EXT, "n") for index in range(number)]
    cluster = replace(by_hand.cluster({"n": 1_000_000}, rows), tags=("tag",))
    assert decode(BufferedReader(BytesIO(encode(cluster, "more", [1])))) == (cluster, "more", [1])
