"""The configuration: the command line, then the TOML file, then the defaults."""

import argparse
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, NamedTuple, get_type_hints

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.ganeti_storage import pool
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.files import read_regular_file
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import Pool
from ganeti_htools.records import RecordError, Valid, meaning
from ganeti_htools.version import ShowVersion
from htoolsd.config.http import HttpSettings
from htoolsd.config.keys import FILE, FIXED, ConfigError, checked, one_of
from htoolsd.config.ledger import check_address, has_password
from htoolsd.config.load import LoadSettings
from htoolsd.config.notify import NotifySettings
from htoolsd.config.policies import (
    PolicySettings,
    RebalanceSettings,
    RedistributeSettings,
    RelieveSettings,
    RepairSettings,
    SqueezeSettings,
)
from htoolsd.config.recording import RecordingSettings
from htoolsd.config.roles import RoleSettings
from htoolsd.config.witness import WitnessSettings

_LARGEST = 1 << 20  # bytes of the file
_HEAD = """\
# Configuration of htoolsd(8): the file that --config names, usually /etc/htoolsd.toml.
#
# Every key is here with its default. Sizes are MiB, durations are seconds.
# To check the file: htoolsd --config /etc/htoolsd.toml --check-config
# To have a running daemon read it again: systemctl reload htoolsd (SIGHUP)
"""


def _pool(where: str, value: object) -> Pool:
    fields = Fields(where, value)
    if fields.has("free"):
        raise fields.wrong("free", "Int", "no value; a probe measures it")
    return pool(fields)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The table ``[plans]`` of the configuration file."""

    longest_search_seconds: Annotated[float, "longest search for a plan, as with hbal --optimise"] = 600.0
    certificates: Annotated[
        str,
        one_of("refuse", "warn", "off"),
        "judge plans before they are executed (hcheck --plan): refuse those that do not hold, warn, off",
    ] = "refuse"


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of the configuration file, tables last. Durations are seconds."""

    socket: Annotated[str, "Unix socket to serve on", FIXED] = DEFAULT_SOCKET
    group: Annotated[str, "group whose members may connect; empty: everybody, as [roles] allows", FIXED] = ""
    state_dir: Annotated[str, "state directory: the lock, and what must survive a restart", FIXED] = (
        "/var/lib/htoolsd"
    )
    luxi: Annotated[str, "socket of Ganeti's luxid; empty: Ganeti's default", FIXED] = ""
    ssconf_dir: Annotated[str, "directory of Ganeti's ssconf files; empty: Ganeti's default", FIXED] = ""
    config_seconds: Annotated[float, "interval of polls of Ganeti's configuration"] = 5.0
    live_seconds: Annotated[float, "longest interval of polls of all nodes' live data"] = 300.0
    storage: Annotated[
        str,
        one_of("never", "when-needed", "always"),
        "ask nodes for storage units by jobs: never, when-needed (a request or instance names some), always",
    ] = "never"
    storage_seconds: Annotated[float, "interval of these jobs for each node"] = 600.0
    pool: Annotated[
        tuple[Annotated[Pool, _pool], ...],
        Valid("tables, each as [[pool]]"),
        "pools whose size no node reports: type, key, total, reserved, allocation_ratio, probe, provider",
    ] = ()
    vcpu_max_unit: Annotated[
        str,
        one_of("none", "physical"),
        "largest number of virtual CPUs of an instance on a node: none, physical (the node's CPUs)",
    ] = "none"
    history_days: Annotated[float, "how long entries of the history are kept, days"] = 90.0
    history_mib: Annotated[int, "largest size of the history, MiB"] = 256
    ledger: Annotated[
        str,
        checked(check_address),
        "the ledger's database, postgresql://...; empty: ledger.sqlite in the state directory",
        FIXED,
    ] = ""
    claims: Annotated[
        str,
        one_of("auto", "always", "never"),
        "whether decisions claim resources: auto (when luxid can be reached), always, never",
    ] = "auto"
    claim_seconds: Annotated[float, "how long a claim lasts, apart from the time of its job"] = 600.0
    claim_wait_seconds: Annotated[
        float, "longest wait of a decision for a shared ledger, also while others claim the same resources"
    ] = 2.0
    connections: Annotated[int, "most clients at the same time; idle ones are disconnected for new ones"] = (
        200
    )
    connections_per_user: Annotated[int, "most clients of one user at the same time"] = 100
    message_mib: Annotated[int, "longest message of a client, MiB"] = 16
    request_mib: Annotated[int, "longest request file, MiB"] = 16
    idle_seconds: Annotated[float, "longest time for a client to send a message"] = 60.0
    write_seconds: Annotated[float, "longest time for a client to accept an answer"] = 10.0
    wait_seconds: Annotated[float, "longest wait of a decision for its turn"] = 30.0
    decision_seconds: Annotated[float, "longest time for a decision; then it is given up"] = 60.0
    stop_seconds: Annotated[float, "longest wait for unfinished work when the daemon stops"] = 30.0
    roles: Annotated[RoleSettings, "what callers may do"] = RoleSettings()  # noqa: RUF009
    http: Annotated[HttpSettings, "a read-only HTTP listener"] = HttpSettings()  # noqa: RUF009
    notify: Annotated[NotifySettings, "the program or address that gets events"] = NotifySettings()  # noqa: RUF009
    witness: Annotated[WitnessSettings, "Ganeti's own iallocator beside htoolsd"] = WitnessSettings()  # noqa: RUF009
    recording: Annotated[RecordingSettings, "decisions with all that they used"] = RecordingSettings()  # noqa: RUF009
    plans: Annotated[PlanSettings, "the making of plans"] = PlanSettings()
    load: Annotated[LoadSettings, "the measured load of instances and nodes"] = LoadSettings()  # noqa: RUF009
    repair: Annotated[RepairSettings, "the policy that repairs instances"] = RepairSettings()  # noqa: RUF009
    redistribute: Annotated[RedistributeSettings, "the policy that repairs node groups"] = (
        RedistributeSettings()  # noqa: RUF009
    )
    squeeze: Annotated[SqueezeSettings, "the policy that powers nodes down and up"] = SqueezeSettings()  # noqa: RUF009
    relieve: Annotated[RelieveSettings, "the policy that takes load off hot nodes"] = RelieveSettings()  # noqa: RUF009
    rebalance: Annotated[RebalanceSettings, "the policy that balances node groups"] = RebalanceSettings()  # noqa: RUF009

    @property
    def policies(self) -> Mapping[str, PolicySettings]:
        """The settings of each policy."""
        each = {"repair": self.repair, "redistribute": self.redistribute}
        return {**each, "squeeze": self.squeeze, "relieve": self.relieve, "rebalance": self.rebalance}

    @property
    def limits_vcpus(self) -> bool:
        """Whether an instance gets at most as many virtual CPUs as its node has CPUs."""
        return self.vcpu_max_unit == "physical"


class _Key(NamedTuple):
    """A key of the file. A change of a ``fixed`` one needs a restart of the daemon."""

    name: str
    default: object
    doc: str
    fixed: bool

    def __str__(self) -> str:
        return f"{self.name} = {_toml(self.default)}"


def _keys(cls: type[Any]) -> list[_Key]:
    hints = get_type_hints(cls, include_extras=True)
    return [
        _Key(each.name, each.default, meaning(hint), FIXED in hint.__metadata__)
        for each in fields(cls)
        for hint in [hints[each.name]]
    ]


def _parts() -> Iterator[tuple[str, list[_Key]]]:
    """Yield the keys outside of tables, then those of each table, with the table's name."""
    tables = [each for each in _keys(Config) if is_dataclass(each.default)]
    yield "", [each for each in _keys(Config) if each not in tables]
    for each in tables:
        yield each.name, _keys(type(each.default))


def describe() -> str:
    """Return the keys with defaults and meaning, one per line; keys of tables as ``table.key``."""
    return "\n".join(
        f"  {f'{head}.' * bool(head) + str(each):<45} {each.doc}" for head, keys in _parts() for each in keys
    )


def sample() -> str:
    """Return a configuration file with all keys as comments."""
    written = _HEAD
    for head, keys in _parts():
        written += f"\n[{head}]\n" if head else ""
        for each in keys:
            written += f"\n# {each.doc}{' (needs a restart)' if each.fixed else ''}\n# {each}\n"
    return written


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="htoolsd",
        description="Answers iallocator requests on the Ganeti master.",
        epilog=f"Keys of the configuration file (TOML), and their defaults:\n{describe()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--socket", metavar="PATH", help="Unix socket to serve on")
    parser.add_argument(
        "--socket-fd",
        metavar="N",
        type=int,
        help="serve on the open socket with this number; its name is PATH",
    )
    parser.add_argument(
        "--state-dir", metavar="DIR", help="directory of the lock and of what must survive a restart"
    )
    parser.add_argument("--luxi", metavar="PATH", help="socket of Ganeti's luxid")
    parser.add_argument("--config", metavar="FILE", help="configuration file; the options above override it")
    parser.add_argument(
        "--stay", action="store_true", help="on other nodes than the master, wait for the role"
    )
    parser.add_argument("--check-config", action="store_true", help="check the configuration and exit")
    parser.add_argument(
        "--online", action="store_true", help="with --check-config: also ask the source of [load]"
    )
    parser.add_argument(
        "--version", action=ShowVersion, nargs=0, default=argparse.SUPPRESS, help="show the version"
    )
    return parser


def reloaded(old: Config, new: Config) -> tuple[Config, list[str]]:
    """Return the configuration after a reload, and the changed keys that need a restart."""
    held = [each.name for each in _keys(Config) if each.fixed]
    waiting = [name for name in held if getattr(new, name) != getattr(old, name)]
    return replace(new, **{name: getattr(old, name) for name in held}), waiting


def load(path: str | None, given: Mapping[str, str | None]) -> Config:
    """Return the configuration from the file at ``path`` (None: no file) and values of the command line.

    Raises DataError that names the file and the key, ConfigError for one or several keys.
    """
    try:
        config: Config = FILE.read(Config, path or "", _parse(path) if path is not None else {})
    except RecordError as error:
        raise ConfigError(error.lines, error.valid) from None
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(config, **chosen)


def exposes_password(path: str | None, config: Config) -> bool:
    """Whether all users may read the file at ``path``, and it has a secret.

    Secrets are the password of the ledger's database, and the address of notifications.
    """
    if path is None or not (has_password(config.ledger) or config.notify.url):
        return False
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:  # it is gone
        return False


def _parse(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular_file(path, _LARGEST).decode())
    except OSError as err:
        raise DataError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise DataError(f"{path}: not TOML: {err}") from None


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":  # python -m htoolsd.config.config >systemd/htoolsd.toml
    print(sample(), end="")
