"""Reads a cluster from a file, a simulation, Ganeti's master (LUXI, RAPI) or htoolsd.

Backends are imported on demand, so that programs start faster.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ganeti_htools.files import read_bytes, read_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.model.ignored_tags import without_ignored
from ganeti_htools.model.known_storage import has_several_storage_types
from ganeti_htools.model.tags import INVENTORY
from ganeti_htools.sources.installed import with_version

Warn = Callable[[str], None]  # called with one line for the user


class Source(NamedTuple):
    """The source of a cluster. Of several, the first in the order of these fields is read.

    ``daemon`` and ``luxi`` are sockets, the default ones if empty. ``rapi`` is a host, ``host:port``, a
    URL, or a directory of saved documents (``file://PATH``); ``rapi_ca`` is a file of certificates that
    verify it, ``rapi_credentials`` a file with user and password (``netrc(5)``). With ``state_of_record``
    instances have their configured memory, not their current one. ``simulate`` are the groups of a simulated
    cluster; ``text`` and ``request`` are paths of a file in the text format and of an iallocator request
    (``-`` is standard input). ``ganeti_version`` is that of a source that does not have it.
    htoolsd reads Ganeti's configuration again before it answers if ``fresh``. With ``load`` it adds the
    measured load, which other sources lack.
    """

    daemon: str | None = None
    rapi: str = ""
    luxi: str | None = None
    simulate: tuple[str, ...] = ()
    text: str | None = None
    request: str | None = None
    rapi_ca: str | None = None
    rapi_credentials: str | None = None
    state_of_record: bool = False
    ask_storage: bool = False
    ganeti_version: GanetiVersion | None = None
    fresh: bool = True
    load: bool = False


class Reading(NamedTuple):
    """A cluster that was read.

    ``inconsistencies`` are lines about figures of a request that do not add up. From htoolsd,
    ``generations`` are those of its tables. ``updating`` describes nodes whose figures are older than their
    instances, and why; empty if there are none.
    """

    cluster: Cluster
    inconsistencies: tuple[str, ...] = ()
    generations: Mapping[str, int] | None = None
    updating: str = ""


def read(source: Source, warn: Warn, verbose: bool = False) -> Reading:
    """Read a cluster, with the inventories in its nodes' tags. Raises HtoolsError.

    ``warn`` gets a line for each of these: a server that is not verified, a silent node, htoolsd's data that
    is too old, figures of nodes that are older than their instances, an ignored part of a text file; with
    ``verbose``, also for the age of current data.
    """
    reading = _read(source, warn, verbose)
    cluster = without_ignored(with_version(reading.cluster, source.ganeti_version))
    owners = (cluster.tags, *(node.tags for node in cluster.nodes))
    if not any(tag.startswith(INVENTORY) for tags in owners for tag in tags):
        return reading._replace(cluster=cluster)
    from ganeti_htools.backends.inventory_tags import malformed_inventories, with_tagged_inventories

    wrong = tuple(malformed_inventories(cluster))
    return reading._replace(
        cluster=with_tagged_inventories(cluster), inconsistencies=reading.inconsistencies + wrong
    )


def _read(source: Source, warn: Warn, verbose: bool) -> Reading:
    if source.ask_storage and (source.luxi is None or source.daemon is not None):
        raise HtoolsError("--ask-storage: only Ganeti itself (-L) can be asked for storage units")
    if source.load and source.daemon is None:
        raise HtoolsError("--load: only htoolsd (-D) knows the measured load")
    if source.daemon is not None:
        return _from_daemon(source, warn, verbose)
    if source.rapi:
        cluster = _from_rapi(source, warn)
        if has_several_storage_types(cluster):
            warn(
                "Warning: the remote API lacks storage units: nodes have a single figure of disk space"
                " (-L --ask-storage and -D have the units)"
            )
        return Reading(cluster)
    if source.luxi is not None:
        return Reading(_from_luxi(source.luxi, warn, source.ask_storage))
    if source.simulate:
        from ganeti_htools.backends import simu

        return Reading(simu.parse(source.simulate))
    if source.text is not None:
        from ganeti_htools.backends import text

        content = read_text(source.text)
        for line in text.ignored_lines(content, source.text):
            warn(f"Warning: {line}")
        return Reading(text.parse(content, source.text))
    if source.request is not None:
        from ganeti_htools.backends import iallocator

        message = iallocator.read(read_bytes(source.request))
        return Reading(message.cluster, tuple(message.warnings))
    hint = "expected the cluster: -L (Ganeti), -D (htoolsd), -m ADDRESS (remote API), -t FILE or --simulate"
    raise HtoolsError("No backend selected! Exiting.", hint)


def _from_rapi(source: Source, warn: Warn) -> Cluster:
    from ganeti_htools.backends import rapi

    if source.rapi.startswith("file://"):
        directory = source.rapi.removeprefix("file://")
        paths = {name: os.path.join(directory, f"{name}.json") for name in rapi.RESOURCES}
        documents = {
            name: read_bytes(path)
            for name, path in paths.items()
            if name not in rapi.OPTIONAL or os.path.exists(path)
        }
    else:
        import trio

        from ganeti_htools.sources import rapi_http

        how = source.rapi, source.rapi_ca, source.rapi_credentials
        for line in rapi_http.warnings(*how):
            warn(f"Warning: {line}")
        documents = trio.run(rapi_http.fetch, *how)
    return rapi.parse(documents, source.state_of_record)


def _from_luxi(path: str, warn: Warn, ask_storage: bool) -> Cluster:
    """Read Ganeti's cluster; with ``ask_storage`` also storage units."""
    import trio

    from ganeti_htools.backends import luxi
    from ganeti_htools.luxi import client, queries
    from ganeti_htools.sources import storage_jobs

    async def ask() -> Cluster:
        async with client.LuxiClient(path or queries.default_socket()) as ganeti:
            cluster = luxi.parse_with_silent_nodes(await queries.whole_cluster(ganeti))
            warn_of_silent(cluster, warn)
            if ask_storage:
                return await storage_jobs.with_storage(ganeti, cluster, warn)
            if ganeti.path == queries.default_socket():  # on the master node itself
                for line in storage_jobs.volume_group_warnings(cluster, "--ask-storage asks them"):
                    warn(line)
            return cluster

    return trio.run(ask)


def _from_daemon(source: Source, warn: Warn, verbose: bool) -> Reading:
    from ganeti_htools.backends import luxi
    from ganeti_htools.client import calls
    from ganeti_htools.luxi import relayed

    path, fresh = source.daemon or "", source.fresh
    wishes = {"fresh": fresh, **({"load": True} if source.load else {})}
    told: Any = calls.ask(path or calls.default_socket(), "cluster", wishes)
    answers = relayed.from_json(told)
    match told:
        case {"ages": dict(ages), "late": bool(late), "error": error}:
            if verbose or late:
                old = ", ".join(f"{kind} data {age:.0f} s old" for kind, age in ages.items())
                why = f" ({error})" if error else ""
                warn(f"{'Warning: ' if late else ''}htoolsd: {old}{why}")
    cluster, updating = luxi.parse(answers), told.get("updating", ())
    nodes = tuple(
        replace(node, updating=node.name in updating, silent=node.name in told["silent"])
        for node in cluster.nodes
    )
    cluster = replace(cluster, nodes=nodes)
    warn_of_silent(cluster, warn)
    if told.get("storage"):
        from ganeti_htools.backends import ganeti_storage

        cluster = ganeti_storage.with_storage_json(cluster, told["storage"])
    if source.load:
        from ganeti_htools.backends import load_profiles

        cluster = replace(cluster, load_profiles=load_profiles.from_json(told["load"]))
    if told.get("standby"):
        from ganeti_htools.backends import standby

        cluster = replace(cluster, standby=standby.parse(told["standby"], "htoolsd"))
    if path in ("", calls.default_socket()):
        from ganeti_htools.sources import storage_jobs

        remedy = 'the key storage = "when-needed" of htoolsd asks them'
        for line in storage_jobs.volume_group_warnings(cluster, remedy):
            warn(line)
    why = told.get("updating_error") or "instances have come or gone"
    older = describe_updating(updating, why) if updating else ""
    if older and (verbose or fresh):
        warn(f"Warning: htoolsd: {older}; free memory and disk are computed from what has moved")
    return Reading(cluster, (), told["generations"], older)


def warn_of_silent(cluster: Cluster, warn: Warn) -> None:
    """Warn of nodes in use that do not report."""
    for node in cluster.nodes:
        if node.silent:
            warn(f"Warning: node {node.name} does not report, and is taken for offline")


def describe_updating(nodes: Iterable[str], why: str) -> str:
    """Return the error text about nodes whose figures are older than their instances."""
    return f"figures of {', '.join(nodes)} are older than their instances: {why}"


def describe_silent(silent: Iterable[str]) -> str:
    """Return the error text about nodes in use that do not report, so that their capacity is unknown."""
    return f"nodes that are in use do not report: {', '.join(silent)}"
