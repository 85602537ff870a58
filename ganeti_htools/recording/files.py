"""Files of recorded contents: each as its difference to the one before, with a checksum.

A file is a sequence of records, and is only appended to. A record is a line with the checksum (CRC-32) of the
rest, the length of the payload, the time (seconds of the epoch) and the id; and the payload, compressed. The
first record of a file is whole. After damage, the records before it can be read.

Contents are compared piece by piece. A piece ends where a JSON object does; so a row that has not changed is
a piece that the content before had too.
"""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

SUFFIX = ".records"
_END = b"},"  # of a piece
_PIECES, _BYTES = 2000, 1 << 16  # between two pauses


class RecordHead(NamedTuple):
    """The id and time of a record, and its payload."""

    id: str
    time: float
    payload: bytes


def pieces_of(content: bytes, pause: Callable[[], None] = lambda: None) -> list[bytes]:
    """Cut a content into pieces, with pauses: one long call would stop all threads."""
    pieces, at = list[bytes](), 0
    while (end := content.find(_END, at + _BYTES)) >= 0:
        pieces += content[at:end].split(_END)
        at = end + len(_END)
        pause()
    return pieces + content[at:].split(_END)


def encode(
    name: str,
    time: float,
    before: list[bytes],
    pieces: list[bytes],
    pause: Callable[[], None] = lambda: None,
) -> bytes:
    """Return a record: the pieces of a content as their difference to those before."""
    known = {piece: number for number, piece in enumerate(before)}
    runs = [[0, 0, 0]]  # each: first piece that is copied, number of copied pieces, of new ones
    new, following = list[bytes](), 0
    for number, piece in enumerate(pieces):
        if number % _PIECES == 0:
            pause()
        at = following if before[following : following + 1] == [piece] else known.get(piece, -1)
        if at < 0:
            runs[-1][2] += 1
            new.append(piece)
        elif not runs[-1][2] and at == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([at, 1, 0])
        following = at + 1
    payload = zlib.compress(orjson.dumps(runs) + b"\n" + _END.join(new))
    rest = b"%d %.3f %s\n%s" % (len(payload), time, name.encode(), payload)
    return b"%08x %s" % (zlib.crc32(rest), rest)


def _decode(before: list[bytes], payload: bytes) -> list[bytes]:
    """Return the pieces of a content."""
    text, _, rest = zlib.decompress(payload).partition(b"\n")
    new, pieces = iter(pieces_of(rest)), list[bytes]()
    for first, copied, added in orjson.loads(text):
        pieces += before[first : first + copied]
        pieces += [next(new) for _ in range(added)]
    return pieces


def heads(data: bytes) -> tuple[list[RecordHead], int | None]:
    """Return the records in a file, and the byte at which damage begins; None without any."""
    found, at = list[RecordHead](), 0
    while at < len(data):
        end = data.find(b"\n", at) + 1
        words = data[at:end].split()
        try:
            checksum, length, time, name = words
            after = end + int(length)
            if after > len(data) or checksum != b"%08x" % zlib.crc32(data[at + 9 : after]):
                return found, at
            found.append(RecordHead(name.decode(), float(time), data[end:after]))
        except ValueError:
            return found, at
        at = after
    return found, None


def contents(
    directory: Path, wanted: Callable[[RecordHead], bool], damaged: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield the contents of wanted records, the oldest first. Raises OSError.

    ``damaged`` is called with a line about each damaged file.
    """
    for path in sorted(each for each in directory.iterdir() if each.suffix == SUFFIX):
        found, damage = heads(path.read_bytes())
        if damage is not None:
            damaged(f"{path}: damaged at byte {damage}; the {len(found)} decisions before it are read")
        last = max((number for number, each in enumerate(found) if wanted(each)), default=-1)
        pieces: list[bytes] = []
        for each in found[: last + 1]:
            pieces = _decode(pieces, each.payload)
            if wanted(each):
                yield _END.join(pieces)
