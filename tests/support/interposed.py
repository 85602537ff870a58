"""A relay between a program and luxid that stops answering the program at a certain moment.

A program that is killed then was cut off exactly there, however fast it is.
"""

import socketserver
import threading
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ganeti_htools.luxi.framing import END, decode
from ganeti_htools.luxi.job_queries import JobStatus
from tests.support.simulators import ask, raw, until_end


class Moment(Enum):
    """The moment at which a program is cut off. Steps are its submissions with a successful job."""

    ENDED = "a step has ended"
    UNANSWERED = "a step was submitted, and the program does not know whether it was accepted"


class Interposed(socketserver.ThreadingUnixStreamServer):
    """A socket that relays to luxid until a moment, and then sets ``reached``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, luxid: Path, moment: Moment) -> None:
        super().__init__(str(path), _Conversation)
        self.path = path
        self.reached = threading.Event()
        self._luxid = luxid
        self._moment = moment
        self._submitted: list[int] = []
        self._left = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._left.set()
        self.shutdown()
        self.server_close()
        self.path.unlink()

    def answer(self, message: bytes) -> bytes:
        """Return luxid's answer; after the moment, wait until the relay ends."""
        if self.reached.is_set() or self._ended():
            return self._silence()
        answer = raw(self._luxid, message)
        if _value(message)["method"] == "SubmitManyJobs":
            self._submitted += [number for taken, number in _value(answer)["result"] if taken]
            if self._moment is Moment.UNANSWERED:
                return self._silence()
        return answer

    def _ended(self) -> bool:
        """Whether the program's last submission has ended with a successful job."""
        if not self._submitted:
            return False
        states = [JobStatus(state) for (state,) in ask(self._luxid, "QueryJobs", self._submitted, ["status"])]
        return all(state.final for state in states) and JobStatus.SUCCESS in states

    def _silence(self) -> bytes:
        self.reached.set()
        self._left.wait()
        return b""


class _Conversation(socketserver.BaseRequestHandler):
    server: Interposed

    def handle(self) -> None:
        with suppress(OSError):  # who asks is killed
            while message := until_end(self.request):
                self.request.sendall(self.server.answer(message))


def _value(message: bytes) -> dict[str, Any]:
    value = decode(message.removesuffix(END))
    assert isinstance(value, dict)
    return value
