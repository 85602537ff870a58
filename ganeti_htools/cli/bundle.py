"""``htoolsctl bundle``: a report of a fault that helps and has no names."""

import gzip
import io
import json
import os
import platform
import pwd
import socket
import sqlite3
import sys
import tarfile
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ganeti_htools import machine
from ganeti_htools.anonymity import text
from ganeti_htools.anonymity.bundle import CLUSTER, Bundle, bundle
from ganeti_htools.anonymity.names import NameKind
from ganeti_htools.cli.ctl import recorded
from ganeti_htools.cli.ctl.commands import call
from ganeti_htools.cli.setup.observe import run
from ganeti_htools.cli.terminal.messages import warn
from ganeti_htools.files import read_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.wording import counted
from ganeti_htools.sources.source import Source, read
from ganeti_htools.version import VERSION, build, issues

_MOST = 500  # entries of the history, and lines of the log
_PEOPLE = 1000  # the lowest number of a user who is a person
_LIBRARIES = "numpy", "trio", "orjson", "sqlalchemy", "structlog", "httpx", "h11"
_README = """\
Names, addresses and paths are replaced: the same name has the same substitute, and substitutes sort as the
names of their kind do. In texts only words of the programs themselves and figures stay.
cluster.data is for the option -t of the tools. missing.json says what could not be read, and why.
"""


def write(options: Namespace) -> int:
    """Show what a bundle holds, and write it; the exit status. Raises HtoolsError, OSError."""
    cluster, documents = _collect(options)
    made = bundle(cluster, documents, _own_words(), _names_here(), options.coarse)
    if made.leftovers:
        found = ", ".join(made.leftovers[:3])
        raise HtoolsError(f"bundle: not written: its check found names that were not replaced: {found}")
    members = {"README.txt": _README, **made.members}
    path = options.out or f"htoolsd-bundle-{machine.local_time('%Y%m%dT%H%M%S')}.tar.gz"
    if not options.json:
        print("\n".join(_description(members, made, documents["missing.json"])), flush=True)
        if not options.yes and sys.stdin.isatty():
            print(f"Write {path}? [y/N] ", end="", flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise HtoolsError("bundle: nothing is written")
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_tar(members))
    except FileExistsError:
        raise HtoolsError(f"{path}: exists; expected a new file for --out") from None
    if options.json:
        listed = [{"member": name, "bytes": len(each.encode())} for name, each in members.items()]
        facts = {"file": path, "members": listed, "replaced": made.replaced}
        print(json.dumps({**facts, "missing": documents["missing.json"], "report_to": issues()}, indent=2))
    else:
        print(f"{path} is written. Read it before you send it: tar -xzOf {path} | less")
        print(f"Report the fault at {issues() or 'the place that your packager names'}")
    return 0


def _description(members: Mapping[str, str], made: Bundle, missing: Mapping[str, str]) -> Iterator[str]:
    yield "The bundle holds:"
    yield from (f"  {name:20} {len(each.encode()):9} bytes" for name, each in members.items())
    yield from (f"  {name:20} is missing: {why}" for name, why in missing.items())
    replaced = ", ".join(counted(number, f"{kind} name") for kind, number in sorted(made.replaced.items()))
    yield f"Replaced: {replaced or 'nothing'}"


def _collect(options: Namespace) -> tuple[Cluster | None, dict[str, Any]]:
    """Read the cluster and the documents by the names of their members; ``missing.json`` has the rest."""
    missing: dict[str, str] = {}
    documents: dict[str, Any] = {"versions.json": _versions(), "missing.json": missing}

    def add(name: str, look: Callable[[], Any]) -> Any:
        try:
            documents[name] = look()
        except (HtoolsError, OSError, ValueError, sqlite3.Error) as error:
            missing[name] = str(error)
        return documents.get(name)

    configuration = add("configuration.json", lambda: tomllib.loads(read_text(options.config))) or {}
    state = str(configuration.get("state_dir") or recorded.STATE)
    running = add("status.json", lambda: call(options, "status")) is not None
    add("log.jsonl", _log)
    if running:
        about = {"id": options.decision} if options.decision else {"most": _MOST}
        add("history.json", lambda: call(options, "history", about))
    else:
        add("history.json", lambda: _kept_history(f"{state}/history.sqlite", options.decision))
    if options.decision:
        add("request.json", lambda: json.loads(recorded.decision(Path(state), options.decision).request))
    if options.plan and running:
        add("plan.json", lambda: call(options, "follow", {"plan": options.plan}))
    elif options.plan:
        add(
            "plan.json", lambda: json.loads(read_text(f"{state}/plans/{os.path.basename(options.plan)}.json"))
        )
    source = Source(daemon=options.socket, fresh=False) if running else Source(luxi="")
    cluster: Cluster | None = add(CLUSTER, lambda: read(source, warn).cluster)
    documents.pop(CLUSTER, None)
    return cluster, documents


def _versions() -> dict[str, str]:
    found = {"htoolsd": VERSION, "build": build(), "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _log() -> list[Any]:
    """Return the last lines of the log; each is a JSON object, or else text."""
    command = "journalctl", "--unit=htoolsd", "--output=cat", "--no-pager", f"--lines={_MOST}"
    return [_parsed(line) for line in run(command).splitlines()]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _kept_history(path: str, decision: str | None) -> list[Any]:
    """Return the last entries of the history on disk. Raises sqlite3.Error, ValueError."""
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
        newest = "SELECT CAST(document AS BLOB) FROM entries ORDER BY number DESC LIMIT ?"
        entries = [json.loads(content) for (content,) in database.execute(newest, (_MOST,))]
    return [each for each in reversed(entries) if decision in (None, each.get("id"))]


def _own_words() -> frozenset[str]:
    """Return the words of the sources of library and daemon."""
    packages = map(find_spec, ("ganeti_htools", "htoolsd"))
    places = (place for found in packages if found for place in found.submodule_search_locations or ())
    files = (file for place in places for file in Path(place).rglob("*.py"))
    return text.words((*(file.read_text("utf-8") for file in files), VERSION, build()))


def _names_here() -> set[tuple[NameKind, str]]:
    """Return the names of this host and of the people with an account."""
    people = {(NameKind.USER, each.pw_name) for each in pwd.getpwall() if _PEOPLE <= each.pw_uid < 1 << 15}
    return people | {(NameKind.HOST, socket.gethostname())}


def _tar(members: Mapping[str, str]) -> bytes:
    """Pack texts into a compressed tar, which has no name but theirs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"htoolsd-bundle/{name}")
            entry.size, entry.mode = len(content.encode()), 0o600
            tar.addfile(entry, io.BytesIO(content.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)
