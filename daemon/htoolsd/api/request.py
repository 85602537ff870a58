"""The arguments of ``decide``, and its request."""

from collections.abc import Sequence

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.files import read_descriptor
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions
from htoolsd.socket.methods import LONGEST, File
from htoolsd.socket.peer import PassedFile


def read_request(file: PassedFile, largest: int) -> bytes:
    """Return the content of a passed file, which is closed. Raises RefusalError."""
    with file.taken() as descriptor:
        if descriptor is None:
            raise RefusalError(Refusal.FILE, "the request file was closed before it could be read")
        try:
            return read_descriptor(descriptor, largest)
        except OSError as err:
            raise RefusalError(Refusal.FILE, f"the request cannot be read: {err.strerror}") from None


def understand(
    words: Sequence[str], text: str | None, file: File
) -> tuple[PlacementOptions, PassedFile | str]:
    """Return the options, and the file or text with the request. Raises RefusalError."""
    if sum(map(len, words)) > LONGEST:
        raise RefusalError(Refusal.ARGUMENTS, f"decide: arguments: longer than {LONGEST} characters")
    try:
        options = parse_options(words)
    except UsageError as err:
        raise RefusalError(Refusal.ARGUMENTS, str(err)) from None
    if file is not None and text is None:
        return options, file
    if text is not None and file is None:
        return options, text
    raise RefusalError(Refusal.ARGUMENTS, "decide: expected either a passed file or the argument request")
