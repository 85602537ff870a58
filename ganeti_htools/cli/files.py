"""Files that programs read and write, and the cluster that options describe."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ganeti_htools.backends import text
from ganeti_htools.commandline.reading import CommandLine
from ganeti_htools.model.cluster import Cluster, Load, with_loads
from ganeti_htools.model.errors import DataError, HtoolsError

if TYPE_CHECKING:
    from ganeti_htools.backends.mond import Reports


def read_bytes(path: str) -> bytes:
    """The content of a file, of standard input for ``-``. Raises HtoolsError."""
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise HtoolsError(f"{path}: cannot be read: {_reason(error)}") from error


def read_text(path: str) -> str:
    """The same as text, which is UTF-8. Raises HtoolsError."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, but byte {error.start} is not") from error


def write_text(path: str, content: str) -> None:
    """Replace a file, or leave it as it was: never a part of ``content``. Raises HtoolsError.

    What is no regular file, like a pipe or a device, is written to: it must not be replaced.
    """
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(4).hex()}.tmp"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            return
        try:
            with open(temporary, "x", encoding="utf-8", newline="") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, ValueError) as error:
        raise HtoolsError(f"{path}: cannot be written: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def save(prefix: str, extension: str, when: str, cluster: Cluster) -> str:
    """Write a cluster in the text format; the result tells so. ``when`` is like "before balancing"."""
    path = f"{prefix}.{extension}"
    write_text(path, text.dump(cluster))
    return f"The cluster state {when} has been written to file '{path}'"


def warn(message: str) -> None:
    """Tell the user on standard error."""
    print(message, file=sys.stderr)


def say(text: str) -> None:
    """Put text on standard error as it is; what nobody can read is no reason to fail."""
    with suppress(OSError, ValueError, AttributeError):
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()


def load(line: CommandLine) -> Cluster:
    """The cluster from the backend that the options name, with its dynamic load. Raises HtoolsError."""
    return load_dated(line)[0]


def load_dated(line: CommandLine) -> tuple[Cluster, Mapping[str, int] | None]:
    """The same, and if the daemon tells of it, the generations that it is of. Raises HtoolsError."""
    one_source(line)
    generations: Mapping[str, int] | None = None
    silent: Sequence[str] = ()
    with _during("failed to load data, aborting"):
        if line.daemon is not None:
            cluster, generations, silent = from_daemon(line.daemon, line.verbose > 1)
        else:
            cluster = _described(line)
    if silent and line.exec and not line.wait_for_nodes:
        raise HtoolsError(f"{unheard(silent)}: nothing is carried out (--wait-for-nodes waits for them)")
    return with_dynamics(cluster, line), generations


def _described(line: CommandLine) -> Cluster:
    if line.master:
        return from_rapi(line.master, line.rapi_ca, line.state_of_record)
    if line.luxi is not None:
        return from_luxi(line.luxi)
    if line.simulate:
        from ganeti_htools.backends import simu  # like others below, seldom needed

        return simu.parse(line.simulate)
    if line.text_data is not None:
        return text.parse(read_text(line.text_data), line.text_data)
    if line.ialloc_src is not None:
        from ganeti_htools.backends import iallocator

        message = iallocator.read(read_bytes(line.ialloc_src))
        say(inconsistencies(message.warnings))
        return message.cluster
    raise HtoolsError("No backend selected! Exiting.")


def one_source(line: CommandLine) -> None:
    """Raises HtoolsError if the options name several."""
    given = bool(line.master), line.luxi is not None, line.text_data is not None, line.daemon is not None
    if given.count(True) > 1:
        others = "luxi, daemon," if line.daemon is not None else "luxi,"
        raise HtoolsError(f"Only one of the rapi, {others} and data files options should be given.")


def from_rapi(address: str, ca: str | None, state_of_record: bool = False) -> Cluster:
    """The cluster of a RAPI server, or of a directory (``file://PATH``). Raises HtoolsError."""
    from ganeti_htools.backends import rapi  # like the modules below, seldom needed

    if address.startswith("file://"):
        directory = address.removeprefix("file://")
        documents = {name: read_bytes(os.path.join(directory, f"{name}.json")) for name in rapi.RESOURCES}
        return rapi.parse(documents, state_of_record)
    import trio

    from ganeti_htools.backends import rapi_http

    return rapi.parse(trio.run(rapi_http.fetch, address, ca), state_of_record)


def from_luxi(path: str) -> Cluster:
    """The cluster of the Ganeti behind a socket, the usual one if ``path`` is empty. Raises HtoolsError."""
    import trio

    from ganeti_htools.backends import luxi
    from ganeti_htools.luxi import client, queries

    async def ask() -> queries.ClusterAnswers:
        async with client.Client(path or queries.default_socket()) as ganeti:
            return await queries.whole_cluster(ganeti)

    return luxi.parse(trio.run(ask))


def unheard(silent: Iterable[str]) -> str:
    """What is wrong with nodes of which nobody knows whether they can be used."""
    return f"nodes that are in use do not report: {', '.join(silent)}"


def from_daemon(path: str, verbose: bool) -> tuple[Cluster, Mapping[str, int], Sequence[str]]:
    """The cluster as the daemon behind a socket knows it, the usual one if ``path`` is empty; the generations
    of its tables; and the nodes that do not report. Its configuration is no older than the question.

    How old all is, is told if ``verbose``, or if something is older than it should be. Raises HtoolsError.
    """
    from ganeti_htools.backends import luxi
    from ganeti_htools.client import asking
    from ganeti_htools.luxi import relayed

    told: Any = asking.ask(path or asking.usual_socket(), "cluster", {"fresh": True})
    answers = relayed.read(told)
    match told:
        case {"ages": dict(ages), "late": bool(late), "error": error, "silent": list(silent)}:
            if verbose or late:
                old = ", ".join(f"{kind} data {age:.0f} s old" for kind, age in ages.items())
                why = f" ({error})" if error else ""
                warn(f"{'Warning: ' if late else ''}htoolsd: {old}{why}")
            for name in silent:
                warn(f"Warning: node {name} does not report, and is taken for offline")
    cluster, updating = luxi.parse(answers), told.get("updating", ())
    if verbose and updating:
        warn(f"htoolsd: figures of {', '.join(updating)} are being updated: instances have come or gone")
    nodes = (replace(node, updating=node.name in updating) for node in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes)), told["generations"], told["silent"]


def with_dynamics(cluster: Cluster, line: CommandLine) -> Cluster:
    """The cluster with the load that ``--dynu-file`` and the monitoring daemons tell, or with none."""
    loads = {}
    if line.dynu_file is not None:
        from ganeti_htools.backends import utilisation

        content = read_text(line.dynu_file)
        with _during("can't parse utilisation data"):
            loads = utilisation.parse(content, line.dynu_file)
    if line.ignore_dynu:
        idle = Load(0.0, 0.0, 0.0, 0.0)
        instances = tuple(replace(instance, load=idle) for instance in cluster.instances)
        return replace(cluster, instances=instances)
    return with_mond(with_loads(cluster, loads), line)


def with_mond(cluster: Cluster, line: CommandLine) -> Cluster:
    """The cluster with the load that the monitoring daemons tell, if they are to be asked."""
    if not line.mond or line.ignore_dynu:
        return cluster
    from ganeti_htools.backends import mond

    cluster, problems = mond.apply(cluster, _reports(cluster, line), line.mond_xen)
    for problem in problems:
        warn(problem)
    if problems and line.exit_on_missing_mond_data:
        raise HtoolsError("Not all required data available")
    return cluster


def _reports(cluster: Cluster, line: CommandLine) -> "Reports":
    from ganeti_htools.backends import mond

    if line.mond_data is not None:
        content = read_bytes(line.mond_data)
        with _during("can't parse MonD data"):
            return mond.parse(content, line.mond_data)
    from ganeti_htools.backends import mond_http

    nodes = [node.name for node in cluster.nodes]
    reports, problems = mond_http.query(nodes, mond.collector(line.mond_xen))
    for problem in problems:
        warn(problem)
    return reports


@contextmanager
def _during(task: str) -> Iterator[None]:
    try:
        yield
    except HtoolsError as error:
        raise HtoolsError(f"{task}: {error}") from error


def inconsistencies(lines: Iterable[str]) -> str:
    """What a program says about a cluster whose figures do not add up, nothing without ``lines``."""
    listed = "".join(f"  - {line}\n" for line in lines)
    return f"Warning: cluster has inconsistent data:\n{listed}\n" if listed else ""


@contextmanager
def progress(after: float = 1.0) -> Iterator[Callable[[str], None]]:
    """A line on the terminal, if standard error is one, that tells how far long work (seconds) is.

    What is told replaces what was told before; an empty text only takes it away.
    """
    start, shown = time.monotonic(), False

    def tell(text: str) -> None:
        nonlocal shown
        if (text or shown) and time.monotonic() - start >= after and sys.stderr and sys.stderr.isatty():
            say(f"\r\x1b[K{text}")
            shown = bool(text)

    try:
        yield tell
    finally:
        tell("")
