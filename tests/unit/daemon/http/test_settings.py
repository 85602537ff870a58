"""Settings of the HTTP listener."""

from pathlib import Path

import pytest

from ganeti_htools.model.errors import DataError
from htoolsd.config.http import Address, HttpSettings, address, read_token


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("unix:/run/htoolsd/http", Address("/run/htoolsd/http")),
        ("127.0.0.1:9719", Address(host="127.0.0.1", port=9719)),
        ("127.1.2.3:1", Address(host="127.1.2.3", port=1)),
        ("[::1]:65535", Address(host="::1", port=65535)),
    ],
)
def test_understands_addresses(listen: str, expected: Address) -> None:
    assert address(listen) == expected


@pytest.mark.parametrize(
    "listen",
    [
        "0.0.0.0:9719",
        "192.0.2.1:9719",
        "[::]:9719",
        "[2001:db8::1]:9719",
        ":9719",
        "9719",
        "localhost:9719",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "::1:9719",
        "unix:relative",
        "unix:",
        "/run/http",
        "[::ffff:192.0.2.1]:9719",
        "127.0.0.1:9719 ",
        "[127.0.0.1:9719",
    ],
)
def test_refuses_what_is_not_of_this_machine(listen: str) -> None:
    with pytest.raises(DataError, match="expected unix:/PATH, or a loopback address"):
        address(listen)


def test_loopback_needs_a_token_and_a_unix_socket_none() -> None:
    assert HttpSettings("unix:/run/http").token_file == ""
    with pytest.raises(DataError, match="token_file: expected a file"):
        HttpSettings("127.0.0.1:9719")
    for listen in ("", "unix:/run/http"):
        with pytest.raises(DataError, match="token_file: expected only"):
            HttpSettings(listen, "/etc/token")


def test_token_is_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    for mode in (0o600, 0o400):
        file.chmod(mode)
        assert read_token(str(file)) == b"0123456789abcdef"
    for mode in (0o640, 0o604, 0o620, 0o601):
        file.chmod(mode)
        with pytest.raises(DataError, match="expected mode 0600"):
            read_token(str(file))


@pytest.mark.parametrize("content", ["", "short", "0123456789 abcdef", "0123456789abcdef\n2", "x" * 5000])
def test_refuses_other_contents(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(DataError, match=str(file)):
        read_token(str(file))


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(DataError, match=str(path)):
            read_token(str(path))
