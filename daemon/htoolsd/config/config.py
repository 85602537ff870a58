"""The configuration: the command line, then the TOML file, then the defaults."""

import argparse
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.ganeti_storage import pool
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.files import read_regular_file
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import Pool
from ganeti_htools.version import ShowVersion
from htoolsd.config.http import HttpSettings
from htoolsd.config.keys import ConfigError, check_table, checked, key, one_of
from htoolsd.config.ledger import check_address, has_password
from htoolsd.config.notify import NotifySettings
from htoolsd.config.policies import (
    PolicySettings,
    RebalanceSettings,
    RedistributeSettings,
    RepairSettings,
    SqueezeSettings,
)
from htoolsd.config.roles import RoleSettings

_LARGEST = 1 << 20  # bytes of the file
_HEAD = """\
# Configuration of htoolsd(8): the file that --config names, usually /etc/htoolsd.toml.
#
# Every key is here with its default. Sizes are MiB, durations are seconds.
# To check the file: htoolsd --config /etc/htoolsd.toml --check-config
# To have a running daemon read it again: systemctl reload htoolsd (SIGHUP)
"""


def _pools(name: str, value: object) -> tuple[Pool, ...]:
    if not isinstance(value, list):
        raise DataError(f"{name}: expected tables, each as [[pool]]")
    pools, errors = list[Pool](), list[str]()
    for place, each in enumerate(value, 1):
        try:
            pools.append(_pool(Fields(f"{name} {place}", each)))
        except DataError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError(errors, {})
    return tuple(pools)


def _pool(fields: Fields) -> Pool:
    if fields.has("free"):
        raise fields.wrong("free", "Int", "no value; a probe measures it")
    return pool(fields)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The table ``[plans]`` of the configuration file."""

    longest_search_seconds: float = key(600.0, "longest search for a plan, as with hbal --optimise")


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of the configuration file, tables last. Durations are seconds."""

    socket: str = key(DEFAULT_SOCKET, "Unix socket to serve on", fixed=True)
    group: str = key("", "group whose members may connect; empty: everybody, as [roles] allows", fixed=True)
    state_dir: str = key(
        "/var/lib/htoolsd", "state directory: the lock, and what must survive a restart", fixed=True
    )
    luxi: str = key("", "socket of Ganeti's luxid; empty: Ganeti's default", fixed=True)
    ssconf_dir: str = key("", "directory of Ganeti's ssconf files; empty: Ganeti's default", fixed=True)
    config_seconds: float = key(5.0, "interval of polls of Ganeti's configuration")
    live_seconds: float = key(300.0, "longest interval of polls of all nodes' live data")
    storage: str = key(
        "never",
        "ask nodes for storage units by jobs: never, when-needed (a request or instance names some), always",
        read=one_of("never", "when-needed", "always"),
    )
    storage_seconds: float = key(600.0, "interval of these jobs for each node")
    pool: tuple[Pool, ...] = key(
        (),
        "pools whose size no node reports: type, key, total, reserved, allocation_ratio, probe, provider",
        read=_pools,
    )
    vcpu_max_unit: str = key(
        "none",
        "largest number of virtual CPUs of an instance on a node: none, physical (the node's CPUs)",
        read=one_of("none", "physical"),
    )
    history_days: float = key(90.0, "how long entries of the history are kept, days")
    history_mib: int = key(256, "largest size of the history, MiB")
    ledger: str = key(
        "",
        "the ledger's database, postgresql://...; empty: ledger.sqlite in the state directory",
        fixed=True,
        read=checked(check_address),
    )
    claims: str = key(
        "auto",
        "whether decisions claim resources: auto (when luxid can be reached), always, never",
        read=one_of("auto", "always", "never"),
    )
    claim_seconds: float = key(600.0, "how long a claim lasts, apart from the time of its job")
    claim_wait_seconds: float = key(
        2.0, "longest wait of a decision for a shared ledger, also while others claim the same resources"
    )
    connections: int = key(200, "most clients at the same time; idle ones are disconnected for new ones")
    connections_per_user: int = key(100, "most clients of one user at the same time")
    message_mib: int = key(16, "longest message of a client, MiB")
    request_mib: int = key(16, "longest request file, MiB")
    idle_seconds: float = key(60.0, "longest time for a client to send a message")
    write_seconds: float = key(10.0, "longest time for a client to accept an answer")
    wait_seconds: float = key(30.0, "longest wait of a decision for its turn")
    decision_seconds: float = key(60.0, "longest time for a decision; then it is given up")
    stop_seconds: float = key(30.0, "longest wait for unfinished work when the daemon stops")
    roles: RoleSettings = key(RoleSettings(), "what callers may do")  # noqa: RUF009
    http: HttpSettings = key(HttpSettings(), "a read-only HTTP listener")  # noqa: RUF009
    notify: NotifySettings = key(NotifySettings(), "the program or address that gets events")  # noqa: RUF009
    plans: PlanSettings = key(PlanSettings(), "the making of plans")  # noqa: RUF009
    repair: RepairSettings = key(RepairSettings(), "the policy that repairs instances")  # noqa: RUF009
    redistribute: RedistributeSettings = key(RedistributeSettings(), "the policy that repairs node groups")  # noqa: RUF009
    squeeze: SqueezeSettings = key(SqueezeSettings(), "the policy that powers nodes down and up")  # noqa: RUF009
    rebalance: RebalanceSettings = key(RebalanceSettings(), "the policy that balances node groups")  # noqa: RUF009

    @property
    def policies(self) -> Mapping[str, PolicySettings]:
        """The settings of each policy."""
        each = {"repair": self.repair, "redistribute": self.redistribute}
        return {**each, "squeeze": self.squeeze, "rebalance": self.rebalance}

    @property
    def limits_vcpus(self) -> bool:
        """Whether an instance gets at most as many virtual CPUs as its node has CPUs."""
        return self.vcpu_max_unit == "physical"


def _parts() -> Iterator[tuple[str, list[Field[Any]]]]:
    """Yield the keys outside of tables, then those of each table, with the table's name."""
    tables = [each for each in fields(Config) if is_dataclass(each.default)]
    yield "", [each for each in fields(Config) if each not in tables]
    for each in tables:
        yield each.name, list(fields(each.default))  # type: ignore[arg-type]


def describe() -> str:
    """Return the keys with defaults and meaning, one per line; keys of tables as ``table.key``."""
    return "\n".join(
        f"  {f'{head}.' * bool(head) + _assigned(each):<45} {each.metadata['doc']}"
        for head, keys in _parts()
        for each in keys
    )


def sample() -> str:
    """Return a configuration file with all keys as comments."""
    written = _HEAD
    for head, keys in _parts():
        written += f"\n[{head}]\n" if head else ""
        written += "".join(f"\n{_explained(each)}" for each in keys)
    return written


def _explained(found: Field[Any]) -> str:
    restart = " (needs a restart)" if found.metadata["fixed"] else ""
    return f"# {found.metadata['doc']}{restart}\n# {_assigned(found)}\n"


def _assigned(found: Field[Any]) -> str:
    return f"{found.name} = {_toml(found.default)}"


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
        "--version", action=ShowVersion, nargs=0, default=argparse.SUPPRESS, help="show the version"
    )
    return parser


def reloaded(old: Config, new: Config) -> tuple[Config, list[str]]:
    """Return the configuration after a reload, and the changed keys that need a restart."""
    held = [each.name for each in fields(Config) if each.metadata["fixed"]]
    waiting = [name for name in held if getattr(new, name) != getattr(old, name)]
    return replace(new, **{name: getattr(old, name) for name in held}), waiting


def load(path: str | None, given: Mapping[str, str | None]) -> Config:
    """Return the configuration from the file at ``path`` (None: no file) and values of the command line.

    Raises DataError that names the file and the key, ConfigError for one or several keys.
    """
    values = _read(path) if path is not None else {}
    values.update({name: value for name, value in given.items() if value is not None})
    return Config(**values)


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


def _read(path: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(read_regular_file(path, _LARGEST).decode())
    except OSError as err:
        raise DataError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise DataError(f"{path}: not TOML: {err}") from None
    return check_table(Config, path, values)


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":  # python -m htoolsd.config.config >systemd/htoolsd.toml
    print(sample(), end="")
