"""The sign of a daemon that starts, for clients that wait at a kept socket.

Importing the rest of the daemon takes a second of CPU time, and much longer on a busy machine. So this module
imports only what the interpreter needs anyway.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

SUFFIX = ".starting"  # as in ganeti_htools.client.protocol, whose import takes long
_OPTION = "--socket-fd"
_FIRST_PASSED = 3  # the number of the first descriptor that a service manager passes


def passed_sockets(environment: Mapping[str, str] = os.environ) -> Sequence[int]:
    """Return the descriptors that the service manager has passed (``sd_listen_fds(3)``)."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal():
        return ()
    return range(_FIRST_PASSED, _FIRST_PASSED + int(count))


def show_start(argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[socket.socket]:
    """Return open signs of the start, beside the sockets of ``--socket-fd`` or of the service manager.

    A sign that another daemon gives is left alone. Where none can be given, clients wait for less time.
    """
    given = [value for option, value in pairwise(argv) if option == _OPTION]
    given += [word.removeprefix(f"{_OPTION}=") for word in argv if word.startswith(f"{_OPTION}=")]
    descriptors = [int(number) for number in given if number.isdecimal()] or passed_sockets(environment)
    return [sign for each in descriptors if (sign := _sign(each)) is not None]


def _sign(descriptor: int) -> socket.socket | None:
    """Return a new datagram socket, whose name is that of a socket and the suffix; None if that fails."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        with socket.socket(fileno=os.dup(descriptor)) as kept:
            name = f"{kept.getsockname()}{SUFFIX}"
        if name.startswith("/") and sign.connect_ex(name):
            with suppress(FileNotFoundError):
                os.unlink(name)
            sign.bind(name)
            os.chmod(name, 0o666)
            return sign
    except (OSError, OverflowError):
        pass
    sign.close()
    return None
