"""What a client has sent and not been answered yet."""

from collections import deque
from dataclasses import dataclass, field

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.luxi.framing import END, Decoder, FramingError
from htoolsd.socket.peer import PassedFile

MOST_AHEAD = 1000  # messages that a client may send before the first of them is answered


@dataclass(slots=True)
class Incoming:
    """Messages received and not answered yet, ``held`` bytes of them."""

    decoder: Decoder
    messages: deque[bytes] = field(default_factory=deque)
    file: PassedFile | None = None
    held: int = 0

    def add(self, data: bytes, files: list[PassedFile]) -> None:
        """Take in what was received; no bytes mean the end. Raises RefusalError for what is no call."""
        self.held += len(data)
        for file in files:
            if self.file is None:
                self.file = file
            else:
                file.close()
        if len(files) > 1 or (files and self.file is not files[0]):
            raise RefusalError(Refusal.FILE, "a call takes at most one file")
        if len(self.messages) + data.count(END) > MOST_AHEAD:
            raise RefusalError(Refusal.BUSY, f"more than {MOST_AHEAD} calls are not answered yet")
        try:
            self.messages.extend(self.decoder.feed(data))
            if not data:
                self.decoder.finish()
        except FramingError as err:
            raise RefusalError(Refusal.MESSAGE, str(err)) from None

    def answered(self, message: bytes) -> None:
        """Count a message as answered; its file is closed."""
        self.held -= len(message) + 1
        self.close_file()

    def close_file(self) -> None:
        """Close the file that came with the next call, if there is one."""
        if self.file is not None:
            self.file.close()
            self.file = None
