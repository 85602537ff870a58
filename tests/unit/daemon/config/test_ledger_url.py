"""The URL of the ledger's database."""

from pathlib import Path

import pytest

from ganeti_htools.model.errors import DataError
from htoolsd.config.ledger import check_address, display_url, file_url


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:////a/b:c@d", "/a/b:c@d"),
        ("postgresql://u:s@cret@h:5/d?x=y", "postgresql://u:***@h:5/d?x=y"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql:///d?host=/run", "postgresql:///d?host=/run"),
        ("postgresql://u:se/c:ret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?password=secret&user=u", "postgresql://h/d?password=***&user=u"),
        ("postgresql://h:5/d?user=u&password=s@c:ret", "postgresql://h:5/d?user=u&password=***"),
        ("postgresql://h/d?p%61ssword=secret", "postgresql://h/d?p%61ssword=***"),
        ("postgresql://h/d?PASSWORD=secret&sslpassword=s;x", "postgresql://h/d?PASSWORD=***&sslpassword=***"),
        ("postgresql://h/d?user=u;password=secret", "postgresql://h/d?user=u;password=***"),
        ("postgresql://us@er:se?c&r=e@t@h/d", "postgresql://us@er:***@h/d"),
        ("postgresql://u:secret#x@[::1]:5/d", "postgresql://u:***@[::1]:5/d"),
        ("postgresql://u:secret/d", "postgresql://u:***/d"),
        ("postgresql://[::1]:5/d", "postgresql://[::1]:5/d"),
        ("postgresql://h:5432", "postgresql://h:5432"),
    ],
)
def test_display_url_hides_the_password(url: str, told: str) -> None:
    assert display_url(url) == told


def test_file_url_is_in_the_state_directory(tmp_path: Path) -> None:
    assert display_url(file_url(str(tmp_path))) == str(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s%40cret@h:5432/d?sslmode=require",
        "postgresql://u:se/c#ret@h/d",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://[::1]:5432/d",
        "postgresql://",
    ],
)
def test_address_may_have_all_parts_or_none(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        (
            "postgresql://u:s@secret@h/d",
            "expected postgresql://USER@HOST:PORT/DATABASE, with special characters",
        ),
        ("postgresql://u:secret/d", "expected postgresql://USER@HOST:PORT/DATABASE"),
        ("postgresql://h:99999/secret", "port: expected 1 to 65535, not 99999"),
        ("postgresql://h/d\nsecret", "expected postgresql://"),
        ("mysql://secret", "expected postgresql://USER@HOST/DATABASE or nothing"),
    ],
)
def test_address_that_cannot_work_is_refused_without_quoting_it(url: str, error: str) -> None:
    with pytest.raises(DataError) as refused:
        check_address(url)
    assert str(refused.value).startswith(error)
    assert "secret" not in str(refused.value)
