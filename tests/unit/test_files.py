import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ganeti_htools import files
from ganeti_htools.model.errors import HtoolsError


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ä"
    path.write_text("grüße\r\n", "utf-8", newline="")
    assert files.read_text(str(path)) == "grüße\r\n"
    assert files.read_bytes(str(path)) == "grüße\r\n".encode()


def test_standard_input_is_read() -> None:
    script = "from ganeti_htools import files; print(files.read_text('-') * 2)"
    result = subprocess.run(
        [sys.executable, "-c", script], input="abc", capture_output=True, text=True, check=True
    )
    assert result.stdout == "abcabc\n"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("none", "none: cannot be read: No such file or directory"),
        ("", "cannot be read: Is a directory"),
        ("a\0b", "a\0b: cannot be read: embedded null byte"),
        ("binary", "binary: expected UTF-8 text, but byte 2 is not"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path: Path, name: str, error: str) -> None:
    (tmp_path / "binary").write_bytes(b"ab\xff")
    with pytest.raises(HtoolsError) as caught:
        files.read_text(f"{tmp_path}/{name}")
    assert str(caught.value).endswith(error)
    assert "\n" not in str(caught.value)


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (str(pipe), f"/proc/self/fd/{reader}"):
            files.write_text(path, "told\n")
            assert os.read(reader, 100) == b"told\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    files.write_text(str(path), "old ä\n")
    files.write_text(str(path), "new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert os.listdir(tmp_path) == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    files.write_text(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(HtoolsError, match=rf"^{path}: cannot be written: "):
        files.write_text(str(path), "half\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("name", "error"), [("none/out", "No such file or directory"), ("", "Is a directory")]
)
def test_unwritable_path_is_one_line_error(tmp_path: Path, name: str, error: str) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    with pytest.raises(HtoolsError, match=f"^{directory}/{name}: cannot be written: {error}$"):
        files.write_text(f"{directory}/{name}", "new")
    assert os.listdir(tmp_path) == ["directory"]


def test_all_of_a_file_is_read(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(content)
    assert files.read_regular_file(str(tmp_path / "file"), len(content)) == content


def test_one_that_is_longer_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    with pytest.raises(OSError, match="longer than 3 bytes") as caught:
        files.read_regular_file(str(tmp_path / "file"), 3)
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
            files.read_regular_file(str(waiting_for_ever), 100)
        done.set()

    done = threading.Event()
    threading.Thread(target=read, daemon=True).start()
    assert done.wait(30)


@pytest.mark.parametrize("name", ["/dev/zero", "/proc/self", "/nowhere/at/all"])
def test_what_cannot_be_read_is_an_error(name: str) -> None:
    with pytest.raises(OSError, match=name):
        files.read_regular_file(name, 100)


def test_of_the_files_of_the_kernel_nothing_is_read_that_they_do_not_tell() -> None:
    """It calls itself regular and empty, like /proc/kmsg, which waits for news."""
    assert files.read_regular_file("/proc/self/status", 100) == b""
