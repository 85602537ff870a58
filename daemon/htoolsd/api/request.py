"""The arguments of ``decide``, and its request."""

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.files import read_descriptor
from ganeti_htools.model.errors import UsageError
from ganeti_htools.model.options import PlacementOptions
from htoolsd.claims.claim import Claimant
from htoolsd.socket.methods import Args, File, words
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


def understand(args: Args, file: File) -> tuple[PlacementOptions, PassedFile | str]:
    """Return the options, and the file or text with the request. Raises RefusalError."""
    arguments, text = words("decide", args), args.get("request")
    if text is not None and not isinstance(text, str):
        raise RefusalError(Refusal.ARGUMENTS, "decide: request: expected a string")
    try:
        options = parse_options(arguments)
    except UsageError as err:
        raise RefusalError(Refusal.ARGUMENTS, str(err)) from None
    if file is not None and text is None:
        return options, file
    if text is not None and file is None:
        return options, text
    raise RefusalError(Refusal.ARGUMENTS, "decide: expected either a passed file or the argument request")


def claimant_of(args: Args, file: File) -> Claimant | None:
    """Return who claims the decision's resources, None if nobody does. Raises RefusalError.

    A job passes a file and no argument ``claim``; people use the argument.
    """
    match args.get("claim"):
        case None:
            return "job" if file is not None else None
        case bool(claim):
            return "hand" if claim else None
    raise RefusalError(Refusal.ARGUMENTS, "decide: claim: expected true or false")
