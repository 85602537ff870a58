import os
import threading
from pathlib import Path

import pytest

from htoolsd import regular_file


def test_all_of_a_file_is_read(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(content)
    assert regular_file.read(str(tmp_path / "file"), len(content)) == content


def test_one_that_is_longer_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    with pytest.raises(OSError, match="longer than 3 bytes") as caught:
        regular_file.read(str(tmp_path / "file"), 3)
    assert caught.value.filename == str(tmp_path / "file")


@pytest.fixture
def waiting_for_ever(tmp_path: Path) -> Path:
    """A pipe, which whoever opens it the usual way waits for."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_what_could_keep_the_reader_waiting_is_no_file(waiting_for_ever: Path) -> None:
    def read() -> None:
        with pytest.raises(OSError, match="not a regular file"):
            regular_file.read(str(waiting_for_ever), 100)
        done.set()

    done = threading.Event()
    threading.Thread(target=read, daemon=True).start()
    assert done.wait(30)


@pytest.mark.parametrize("name", ["/dev/zero", "/proc/self", "/nowhere/at/all"])
def test_what_cannot_be_read_is_an_error(name: str) -> None:
    with pytest.raises(OSError, match=name):
        regular_file.read(name, 100)


def test_of_the_files_of_the_kernel_nothing_is_read_that_they_do_not_tell() -> None:
    """It calls itself regular and empty, like /proc/kmsg, which waits for news."""
    assert regular_file.read("/proc/self/status", 100) == b""
