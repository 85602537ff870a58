import os
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.api.request import read_request
from htoolsd.socket.peer import PassedFile
from tests.support.memory_peer import open_file, wait_closed


def write_only(path: Path) -> int:
    path.write_text("secret")
    return os.open(path, os.O_WRONLY)


def pipe(_path: Path) -> int:
    reading, writing = os.pipe()
    os.write(writing, b"{}")
    os.close(writing)
    return reading


def directory(path: Path) -> int:
    return os.open(path.parent, os.O_RDONLY)


def name_only(path: Path) -> int:
    path.write_text("secret")
    return os.open(path, os.O_PATH)


def too_long(path: Path) -> int:
    return open_file(path, "x" * 1001)


@pytest.mark.parametrize("make", [write_only, pipe, directory, name_only, too_long])
def test_refuses_and_closes_unreadable_or_long_files(make: Any, tmp_path: Path) -> None:
    descriptor = make(tmp_path / "request")
    with pytest.raises(RefusalError) as caught:
        read_request(PassedFile(descriptor, 2), 1000)
    assert caught.value.kind is Refusal.FILE
    wait_closed(descriptor)


def test_reads_a_file_from_its_beginning_without_moving_its_offset(tmp_path: Path) -> None:
    descriptor = open_file(tmp_path / "request", "x" * 1000)
    same = os.dup(descriptor)
    os.lseek(same, 10, os.SEEK_SET)
    assert read_request(PassedFile(descriptor, 2), 1000) == b"x" * 1000
    assert os.lseek(same, 0, os.SEEK_CUR) == 10
    os.close(same)


def test_refuses_a_file_that_is_already_closed() -> None:
    file = PassedFile(os.open("/dev/null", os.O_RDONLY), 2)
    file.close()
    file.close()
    with pytest.raises(RefusalError, match="closed before it could be read"):
        read_request(file, 1000)
