"""The URL of the ledger's database."""

from pathlib import Path

import pytest

from htoolsd.ledger.records import display_url, file_url


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:////a/b:c@d", "/a/b:c@d"),
        ("postgresql://u:s@cret@h:5/d?x=y", "postgresql://u:***@h:5/d?x=y"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql:///d?host=/run", "postgresql:///d?host=/run"),
        ("postgresql://u:se/c:ret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?password=secret&user=u", "postgresql://h/d?password=***&user=u"),
    ],
)
def test_display_url_hides_the_password(url: str, told: str) -> None:
    assert display_url(url) == told


def test_file_url_is_in_the_state_directory(tmp_path: Path) -> None:
    assert display_url(file_url(str(tmp_path))) == str(tmp_path / "ledger.sqlite")
