"""Messages of a client that are not answered yet."""

from collections import deque
from dataclasses import dataclass, field

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.luxi.framing import END, Decoder, FramingError
from htoolsd.socket.peer import PassedFile

MAX_UNANSWERED = 1000  # messages that a client may send before the first answer


@dataclass(slots=True)
class Incoming:
    """Messages that are received and not answered yet. Together they have ``held`` bytes."""

    decoder: Decoder
    messages: deque[bytes] = field(default_factory=deque)
    file: PassedFile | None = None
    held: int = 0

    def add(self, data: bytes, files: list[PassedFile]) -> None:
        """Add received data; no bytes mean the end. Raises RefusalError for data that cannot be a call."""
        self.held += len(data)
        for file in files:
            if self.file is None:
                self.file = file
            else:
                file.close()
        if len(files) > 1 or (files and self.file is not files[0]):
            raise RefusalError(Refusal.FILE, "a call takes at most one file")
        if len(self.messages) + data.count(END) > MAX_UNANSWERED:
            raise RefusalError(Refusal.BUSY, f"more than {MAX_UNANSWERED} calls are not answered yet")
        try:
            self.messages.extend(self.decoder.feed(data))
            if not data:
                self.decoder.finish()
        except FramingError as err:
            raise RefusalError(Refusal.MESSAGE, str(err)) from None

    def answered(self, message: bytes) -> None:
        """Remove an answered message, and close its file."""
        self.held -= len(message) + 1
        self.close_file()

    def close_file(self) -> None:
        """Close the file that came with the next call, if there is one."""
        if self.file is not None:
            self.file.close()
            self.file = None
