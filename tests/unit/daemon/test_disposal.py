"""A close that blocks is felt by its user only."""

import os
import socket
import threading
from contextlib import ExitStack

from htoolsd.disposal import MAX_DESCRIPTORS, dispose, is_blocked
from tests.support.lingering import lingering, within
from tests.support.memory_peer import is_open, wait_closed
from tests.support.programs import PATIENCE

ME, OTHER = 10_001, 10_002


def test_user_whose_closes_block_is_blocked_until_they_end() -> None:
    with ExitStack() as others:
        blocking = []
        for _ in range(4):
            end, other = lingering()
            others.enter_context(other)
            blocking.append(within(end).detach())
            end.close()
        before = threading.active_count()
        waiting = [os.open("/dev/null", os.O_RDONLY) for _ in range(MAX_DESCRIPTORS + 1)]
        theirs = os.open("/dev/null", os.O_RDONLY)
        dispose(ME, blocking)
        for each in blocking:  # their closes begin
            wait_closed(each)
        assert not is_blocked(ME)
        for each in waiting:
            dispose(ME, [each])
        assert is_blocked(ME)
        assert not is_blocked(OTHER)
        dispose(OTHER, [theirs])
        wait_closed(theirs)
        assert all(map(is_open, waiting))
        assert threading.active_count() <= before + 5
    for each in waiting:
        wait_closed(each)
    assert not is_blocked(ME)


def test_socket_is_closed() -> None:
    first, second = socket.socketpair()
    with second:
        dispose(ME, [first.detach()])
        second.settimeout(PATIENCE)
        assert second.recv(1) == b""
