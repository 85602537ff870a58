import os
from pathlib import Path

import pytest

from htoolsd.process.lock import lock
from htoolsd.socket.listening import StartError


def test_refuses_a_locked_state_directory(tmp_path: Path) -> None:
    directory = tmp_path / "lib" / "htoolsd"
    held = lock(str(directory))
    with pytest.raises(StartError, match=f"already running: another htoolsd uses {directory}"):
        lock(str(directory))
    os.close(held)
    os.close(lock(str(directory)))


def test_names_a_state_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="file/state"):
        lock(str(tmp_path / "file" / "state"))
