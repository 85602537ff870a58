"""The process of the helper: ``python -m htoolsd.helper.program MODULE SECONDS``.

It reads a cluster and more values from standard input, as :func:`encode` has written them. The function
``work`` of the module gets them and prints the result. The process ends itself after so many seconds of CPU
time.
"""

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from io import BufferedReader
from typing import Any

from ganeti_htools.model.cluster import Cluster, Instance

_LOW = 10  # priority; with 19 a busy machine would not let it end in time
_FEW = 200  # instances; about 2 ms


def encode(cluster: Cluster, *more: Any) -> bytes:
    """Return a cluster and more values as bytes.

    Pickling holds the interpreter, a tenth of a second for 10,000 instances. So instances are pickled a few
    at a time, and a decision in another thread goes on in between.
    """
    rows = cluster.instances
    parts = [rows[start : start + _FEW] for start in range(0, len(rows), _FEW)]
    return b"".join(map(pickle.dumps, ((replace(cluster, instances=()), *more), *parts)))


def decode(stream: BufferedReader) -> tuple[Any, ...]:
    """Return the values in a stream, which only :func:`encode` may have written."""
    bare, *more = pickle.load(stream)

    def instances() -> Iterator[Instance]:
        while stream.peek(1):
            yield from pickle.load(stream)

    return replace(bare, instances=tuple(instances())), *more


def main() -> None:
    """Do the work."""
    module, seconds = sys.argv[1:]
    signal.setitimer(signal.ITIMER_PROF, float(seconds))
    with suppress(PermissionError):  # a unit may forbid it
        os.nice(_LOW)
    with open(0, "rb") as stream:
        values = decode(stream)
    import_module(module).work(*values)


if __name__ == "__main__":
    main()
