import os
import stat
from pathlib import Path

import pytest

from htoolsd import marks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def file(path: Path) -> Path:
    return Path(f"{path}{marks.ALONE}")


def test_counter_is_writable_for_the_group(path: Path, file: Path) -> None:
    before = os.umask(0o077)
    try:
        marks.provide_counter(str(path), "")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o660


def test_counter_survives_a_restart(path: Path, file: Path) -> None:
    file.write_bytes(b"...")
    marks.provide_counter(str(path), "")
    os.utime(file, times=(7, 7))
    assert marks.fallbacks(str(path)) == {"alone": 3, "last_alone": 7}


@pytest.mark.parametrize("what", ["nothing", "a directory", "a link", "a pipe", "no directory"])
def test_ignores_a_counter_that_is_not_a_file(path: Path, file: Path, what: str) -> None:
    match what:
        case "a directory":
            file.mkdir()
        case "a link":
            file.with_name("precious").write_text("all")
            file.symlink_to("precious")
        case "a pipe":
            os.mkfifo(file)
        case "no directory":
            path = path / "socket"
    marks.provide_counter(str(path), "nobody-at-all")
    assert marks.fallbacks(str(path)) == {"alone": 0, "last_alone": None}
