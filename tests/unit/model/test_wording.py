"""Numbers and sizes in sentences."""

import pytest

from ganeti_htools.model import wording


@pytest.mark.parametrize(
    ("mib", "text"),
    [(0, "0 MiB"), (1023, "1023 MiB"), (1024, "1.0 GiB"), (1024 * 1024, "1.0 TiB"), (-2048, "-2.0 GiB")],
)
def test_size_has_unit_that_people_read(mib: int, text: str) -> None:
    assert wording.size(mib) == text


def test_one_is_singular() -> None:
    assert [wording.counted(number, "move") for number in (0, 1, 2)] == ["0 moves", "1 move", "2 moves"]
