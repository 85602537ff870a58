import os
import pwd
import re
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from htoolsd.config.config import Config, PlanSettings, describe, exposes_password, load, reloaded, sample
from htoolsd.config.http import HttpSettings
from htoolsd.config.load import LoadSettings
from htoolsd.config.notify import NotifySettings
from htoolsd.config.policies import (
    RebalanceSettings,
    RedistributeSettings,
    RelieveSettings,
    RepairSettings,
    SqueezeSettings,
)
from htoolsd.config.recording import RecordingSettings
from htoolsd.config.roles import RoleSettings
from htoolsd.config.witness import WitnessSettings
from htoolsd.process.check_config import check, daemon_user
from tests.support.simulators import simulator
from tests.support.worlds import uneven

TABLES: dict[str, type[Any]] = {
    "roles": RoleSettings,
    "http": HttpSettings,
    "notify": NotifySettings,
    "witness": WitnessSettings,
    "recording": RecordingSettings,
    "plans": PlanSettings,
    "load": LoadSettings,
    "repair": RepairSettings,
    "redistribute": RedistributeSettings,
    "squeeze": SqueezeSettings,
    "relieve": RelieveSettings,
    "rebalance": RebalanceSettings,
}
SAMPLE = Path(__file__).resolve().parents[4] / "systemd" / "htoolsd.toml"


def test_uses_defaults_without_a_file() -> None:
    assert load(None, {"socket": None, "luxi": None}) == Config()


def test_command_line_overrides_file_overrides_defaults(tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text('socket = "/file"\nstate_dir = "/state"\nidle_seconds = 5\nconnections = 3\n')
    config = load(str(file), {"socket": "/line", "state_dir": None})
    assert (config.socket, config.state_dir, config.luxi) == ("/line", "/state", Config().luxi)
    assert (config.idle_seconds, config.connections) == (5, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("colour = 1", "unknown key 'colour'; expected one of socket, "),
        ("idle_second = 1", "unknown key 'idle_second'; did you mean idle_seconds?"),
        ("socket = 1", "socket: expected a string"),
        ("connections = 1.5", "connections: expected a whole number greater than 0"),
        ("connections = true", "connections: expected a whole number greater than 0"),
        ("connections = 0", "connections: expected a whole number greater than 0"),
        ('idle_seconds = "5"', "idle_seconds: expected a number greater than 0"),
        ("idle_seconds = -1", "idle_seconds: expected a number greater than 0"),
        ("idle_seconds = nan", "idle_seconds: expected a number greater than 0"),
        ("idle_seconds = inf", "idle_seconds: expected a number greater than 0 and less than 1000000000"),
        (
            "[squeeze]\nmib_per_day = 1000000000",
            "squeeze: mib_per_day: expected a whole number greater than 0 and less than 1000000000",
        ),
        ("[socket]", "socket: expected a string"),
        ("socket =", "not TOML: "),
        ('storage = "sometimes"', "storage: expected one of never, when-needed, always, not 'sometimes'"),
        ('ledger = "mysql://h/d"', "ledger: expected postgresql://USER@HOST/DATABASE or nothing"),
        ('claims = "often"', "claims: expected one of auto, always, never, not 'often'"),
        ("pool = 5", "pool: expected tables, each as [[pool]]"),
        ("[pool]", "pool: expected tables, each as [[pool]]"),
        ("pool = [5]", "pool 1: Unable to read JSObject, expected an object"),
        ("[[pool]]", "pool 1: key 'type' not found"),
        ('[[pool]]\ntype = "rados"\nkey = "x"', "pool 1: key 'total' not found"),
        ('[[pool]]\ntype = "rados"\nkey = "x"\nprobe = []', "pool 1: key 'probe': Unable to read [String]"),
        ('[[pool]]\ntype = "rados"\nkey = "x"\nprobe = "x"', "pool 1: key 'probe': Unable to read"),
        ('[[pool]]\ntype = "rados"\nkey = "x"\ntotal = 5\nfree = 5', "pool 1: key 'free': Unable to read"),
        ('[[pool]]\ntype = "file"\nkey = "x"\ntotal = 5', "pool 1: key 'type': Unable to read StorageType"),
        ('[[pool]]\ntype = "rados"\nkey = ""\ntotal = 5', "pool 1: key 'key': Unable to read String"),
        ('[[pool]]\ntype = "rados"\nkey = "x"\ntotal = -5', "pool 1: key 'total': Unable to read Int"),
        (
            '[[pool]]\ntype = "rados"\nkey = "x"\ntotal = 5\nreserved = 6',
            "pool 1: key 'reserved': Unable to read Int, expected a whole number from 0 to 5, got 6",
        ),
        ("rebalance = 5", "rebalance: expected a table, [rebalance]"),
        ("[rebalance]\nspeed = 1", "rebalance: unknown key 'speed'; expected one of mode, "),
        ('[rebalance]\nmode = "on"', "rebalance: mode: expected one of off, shadow, propose, act, not 'on'"),
        ('[rebalance]\nmode = ""', "rebalance: mode: expected one of off, shadow, propose, act, not ''"),
        ("[rebalance]\nhold = 0", "rebalance: hold: expected a whole number greater than 0"),
        ("[rebalance]\nstop = 3", "rebalance: stop: expected at most start, which is 2"),
        ("[squeeze]\nallow_drbd = 1", "squeeze: allow_drbd: expected true or false"),
        (
            "[squeeze]\ntarget_resources = 0.5",
            "squeeze: target_resources: expected at least minimal_resources, which is 1",
        ),
        ("[squeeze]\nmin_nodes = 3", "squeeze: max_nodes: expected at least min_nodes, which is 3"),
        (
            '[rebalance]\nhours = "8-25"',
            "rebalance: hours: expected local times like 22-6 or 22:00-24:00",
        ),
        ('[rebalance]\nweekdays = ["sunday"]', "rebalance: weekdays: expected a list of strings from mon, "),
        ("[rebalance]\ngroups = [1]", "rebalance: groups: expected a list of strings"),
        ('[load]\nsource = "prometheus"', "load: url: expected a value, because source is prometheus"),
        ('[load]\nurl = "prometheus:9090"', "load: url: expected the URL of a server, like https://"),
        ('[load]\nstrip = "("', "load: strip: expected a regular expression: missing )"),
        ('[load]\ntoken_file = "a"\nnetrc_file = "b"', "load: token_file, netrc_file: expected one of them"),
        ("[load]\nmin_coverage = 101.0", "load: min_coverage: expected a number from 0 to 100"),
        ('[notify]\nprogram = "mail root"', "notify: program: expected the absolute path of a program"),
        ('[notify]\nurl = "http://host/hook"', "notify: url: expected a URL like https://host/path"),
        ('[notify]\nurl = "https://[host/hook"', "notify: url: expected a URL like https://host/path"),
        ('[notify]\nurl = "https://host:port/"', "notify: url: expected a URL like https://host/path"),
        (
            '[notify]\nprogram = "/bin/true"\nurl = "http://localhost/"',
            "notify: program, url: expected one of them",
        ),
        ("x = " + "[" * 5000, "not TOML: "),
        ("connections = " + "9" * 5000, "not TOML: "),
    ],
)
def test_names_file_and_key_of_an_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        load(str(file), {})
    assert str(caught.value).startswith(f"{file}: {problem}")
    assert "\n" not in str(caught.value)


def test_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: No such file"):
        load(str(tmp_path / "nowhere"), {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"binary: not TOML"):
        load(str(tmp_path / "binary"), {})
    with pytest.raises(DataError, match=r"/dev/zero: not a regular file"):
        load("/dev/zero", {})


def test_keys_have_descriptions_and_valid_defaults(tmp_path: Path) -> None:
    described = describe().splitlines()
    own = [key.name for key in fields(Config) if key.name not in TABLES]
    assert [line.split()[0] for line in described] == [
        *own,
        *(f"{name}.{key.name}" for name, table in TABLES.items() for key in fields(table)),
    ]
    assert all(line[47:].strip() for line in described)
    file = tmp_path / "htoolsd.toml"
    file.write_text("\n".join(line[:47] for line in described))
    assert load(str(file), {}) == Config()


def test_sample_has_all_keys(tmp_path: Path) -> None:
    """To be written anew by ``python -m htoolsd.config.config >systemd/htoolsd.toml``."""
    assert SAMPLE.read_text() == sample()
    assert load(str(SAMPLE), {}) == Config()
    assert max(map(len, sample().splitlines())) <= 120
    uncommented = tmp_path / "htoolsd.toml"
    uncommented.write_text(re.sub("(?m)^# (?=[a-z_]+ = )", "", sample()))
    keys = len(fields(Config)) - len(TABLES) + sum(len(fields(table)) for table in TABLES.values())
    assert len(re.findall("(?m)^[a-z]", uncommented.read_text())) == keys
    assert load(str(uncommented), {}) == Config()


def test_reload_keeps_fixed_keys() -> None:
    old = Config(socket="/old", idle_seconds=1)
    config, waiting = reloaded(old, Config(socket="/new", group="new", idle_seconds=2, connections=3))
    assert (config.socket, config.group, config.idle_seconds, config.connections) == ("/old", "", 2, 3)
    assert waiting == ["socket", "group"]
    assert reloaded(old, old) == (old, [])


def test_pools(tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(
        '[[pool]]\ntype = "rados"\nkey = "a"\ntotal = 9\n'
        '[[pool]]\ntype = "ext"\nkey = "b"\ntotal = 8\nreserved = 1\nprovider = "box"'
    )
    file.write_text(f'{file.read_text()}\n[[pool]]\ntype = "ext"\nkey = "c"\nprobe = ["free", "c"]')
    probed = Pool(DesiredUnit(StorageType.EXT, "c"), 0, probe=("free", "c"))
    pools = Pool(DesiredUnit(StorageType.RADOS, "a"), 9), Pool(DesiredUnit(StorageType.EXT, "b"), 8, 1, "box")
    assert load(str(file), {}).pool == (*pools, probed)


@pytest.mark.parametrize("provider", [r"two\nlines", "x" * 201])
def test_reads_the_provider_of_a_pool(tmp_path: Path, provider: str) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(f'[[pool]]\ntype = "ext"\nkey = "b"\ntotal = 8\nprovider = "{provider}"')
    with pytest.raises(DataError, match=r"pool 1.*provider.*a name of one line and at most 200 characters"):
        load(str(file), {})


def test_a_policy(tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text('[rebalance]\nmode = "act"\nhours = "22:00-06:00"\nweekdays = ["sat", "sun"]\nhold = 1')
    expected = RebalanceSettings(mode="act", hours="22:00-06:00", weekdays=("sat", "sun"), hold=1)
    assert load(str(file), {}).rebalance == expected


@pytest.mark.parametrize(
    ("line", "mode", "exposed"),
    [
        ('ledger = "postgresql://htools:secret@db/ledger"', 0o644, True),
        ('ledger = "postgresql://htools:secret@db/ledger"', 0o640, False),
        ('ledger = "postgresql://db/ledger?user=htools&password=secret"', 0o644, True),
        ('ledger = "postgresql://htools@db/ledger"', 0o644, False),
        ('notify.url = "https://chat.example.org/hooks/secret"', 0o644, True),
        ('notify.program = "/bin/true"', 0o644, False),
    ],
)
def test_notices_a_password_that_all_users_can_read(
    tmp_path: Path, line: str, mode: int, exposed: bool
) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(line)
    file.chmod(mode)
    assert exposes_password(str(file), load(str(file), {})) is exposed
    assert not exposes_password(None, load(str(file), {}))


def test_check_names_all_unknown_users_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(
        "connections = 0\n"
        '[roles]\nread = ["gnt-masterd", "no-user"]\ndecide = [7]\nact = ["@no-group", "root"]'
    )
    assert check(str(file), {}) == (
        [
            f"{file}: connections: expected a whole number greater than 0",
            f"{file}: roles: read: there is no user 'no-user'",
            f"{file}: roles: act: there is no group 'no-group'",
        ],
        [],
    )


@pytest.mark.parametrize(
    ("keys", "errors"),
    [
        ('source = "program"\nprogram = "/nowhere"', "/nowhere: expected a program that can be executed"),
        (
            'source = "prometheus"\nurl = "http://host"\ntoken_file = "/nowhere"',
            "/nowhere: No such file or directory",
        ),
        ('source = "program"\nprogram = "/bin/echo"', "/bin/echo: line 1: got ''; expected INSTANCE CORES"),
    ],
)
def test_check_asks_the_source_of_load(tmp_path: Path, keys: str, errors: str) -> None:
    file = tmp_path / "htoolsd.toml"
    with simulator(tmp_path, uneven()) as ganeti:
        file.write_text(f'luxi = "{ganeti.socket}"\n[load]\n{keys}\n')
        ((error,), _) = check(str(file), {}, online=True)
    assert error.startswith(f"{file}: load: {errors}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the rights of others")
def test_check_has_the_rights_of_the_daemons_user() -> None:
    """The owner of the state directory; only the token is unreadable for it."""
    user = pwd.getpwnam("nobody")
    with TemporaryDirectory() as name:
        folder, token = Path(name), Path(name) / "token"
        folder.chmod(0o755)
        token.write_text("0123456789abcdef")
        token.chmod(0o600)
        (folder / "state").mkdir()
        config = folder / "config"
        config.write_text(
            f'state_dir = "{folder}/state"\n[http]\nlisten = "127.0.0.1:9"\ntoken_file = "{token}"\n'
        )
        with daemon_user(str(config), {}):
            assert check(str(config), {}) == ([], [])
        os.chown(folder / "state", user.pw_uid, user.pw_gid)
        with daemon_user(str(config), {}):
            assert (os.geteuid(), os.getegid()) == (user.pw_uid, user.pw_gid)
            errors, _ = check(str(config), {})
        assert errors == [f"{config}: http: token_file: {token}: Permission denied"]
        assert os.geteuid() == 0
