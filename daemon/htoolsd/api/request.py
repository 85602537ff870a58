"""The arguments of ``decide``, and its request."""

from collections.abc import Sequence

from ganeti_htools.backends.documents import has_at_most
from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.files import read_descriptor
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions
from htoolsd.socket.methods import OPTION_CHARACTERS, File
from htoolsd.socket.peer import PassedFile

MAX_VALUES = 1_000_000  # in a request; 10,000 instances need a third


def read_request(source: PassedFile | str, largest: int) -> bytes:
    """Return a request: a text, or the content of a passed file, which is closed. Raises RefusalError."""
    data = source.encode() if isinstance(source, str) else _content(source, largest)
    if not has_at_most(data, MAX_VALUES):
        raise RefusalError(Refusal.FILE, f"the request has more than {MAX_VALUES} values")
    return data


def _content(file: PassedFile, largest: int) -> bytes:
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
    if sum(map(len, words)) > OPTION_CHARACTERS:
        limit = f"longer than {OPTION_CHARACTERS} characters"
        raise RefusalError(Refusal.ARGUMENTS, f"decide: arguments: {limit}")
    try:
        options = parse_options(words)
    except UsageError as err:
        raise RefusalError(Refusal.ARGUMENTS, str(err)) from None
    if file is not None and text is None:
        return options, file
    if text is not None and file is None:
        return options, text
    raise RefusalError(Refusal.ARGUMENTS, "decide: expected either a passed file or the argument request")
