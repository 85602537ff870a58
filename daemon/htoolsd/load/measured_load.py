"""The task that follows the load of instances and nodes, and keeps the profiles on disk."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from operator import is_not
from typing import Annotated, Any, NamedTuple

import numpy as np
import structlog
import trio

from ganeti_htools import machine
from ganeti_htools.backends import load_profiles
from ganeti_htools.backends.fields import Fields
from ganeti_htools.files import read_regular_file, write_text
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.model.load import HOURS, PresentLoad
from ganeti_htools.records import from_bytes, refuse_newer, to_text
from htoolsd.config.load import LoadSettings
from htoolsd.config.settings import Settings
from htoolsd.damaged_files import set_aside
from htoolsd.load.figures import HOUR, LoadError, LoadNames, LoadSample, LoadSource, names_of
from htoolsd.load.profiles import WEEKS, KnownLoad, MeasuredInstance, known_load, with_hours, with_last
from htoolsd.load.report import loads_of_decisions, nodes_to_json
from htoolsd.marks import LOADED, show
from htoolsd.sync.sync import Sync
from htoolsd.threads import Replacements, effect

_log = structlog.get_logger()

_VERSION = 1  # of the file
_FILE_BYTES = 1 << 27  # at most
_DAY = 24 * HOUR
_LONGEST_DAYS = 7  # since the last hour in the profiles
_LOOK_SECONDS = 5.0  # until the cluster is known
_OFF = "[load] is off"
_LATE = 3  # rounds without figures, after which the last ones are late


class MeasuredLoad:
    """The load of the cluster that this node leads. ``path`` is the file of the profiles.

    With ``source = "none"`` nothing is read or computed.
    """

    def __init__(self, path: str, settings: Settings, sync: Sync) -> None:
        self._path = path
        self._settings = settings
        self._sync = sync
        self._measured: Mapping[str, MeasuredInstance] = {}
        self._until = 0.0  # seconds of the epoch: the end of the last hour in the profiles
        self._sampled: float | None = None  # when the sample was taken, on trio's clock
        self._errors: tuple[str, ...] = ()
        self._wrong: list[str] = []
        self._replacements = Replacements()
        self._known: tuple[tuple[object, ...], KnownLoad] | None = None  # and what it was computed from
        self._counted: float | None = None  # the end of the hours that plans and tools count
        self.sample = LoadSample({}, {}, {})
        self.why_unused: str | None = _OFF
        self.of_decisions: Mapping[str, float] = {}  # loads of nodes

    @property
    def settings(self) -> LoadSettings:
        """The present settings."""
        return self._settings.now.load

    @property
    def on(self) -> bool:
        """Whether load is measured."""
        return self.settings.source != "none"

    async def run(self) -> None:
        """Ask the source again and again, until cancelled."""
        source, of, read = None, None, False
        while True:
            changed, settings = self._settings.changed, self.settings
            await effect(show, self._settings.now.socket, LOADED, self.on and settings.decisions)
            if not self.on:
                source, self._errors, self._sampled, self.why_unused = None, (), None, _OFF
                self.of_decisions = {}
                if self._counted is not None:
                    await self._sync.count_load(None)
                    self._counted = None
                await changed.wait()
                continue
            if not read:
                await self.read()
                read = True
            if source is None or settings != of:
                source, of = await effect(make_source, settings), settings
                self.why_unused = self.why_unused and "nothing is measured yet"
            cluster = self._sync.led_cluster
            if cluster is not None:
                await self.round(source, cluster)
            with trio.move_on_after(settings.every_seconds if cluster else _LOOK_SECONDS):
                await changed.wait()

    async def round(self, source: LoadSource, cluster: Cluster) -> None:
        """Ask a source for the present load, and for the hours that have ended since."""
        names = names_of(cluster)
        try:
            self.sample = await source.sample(names)
            self._sampled = trio.current_time()
            if self.sample.instances is not None:
                self._measured, self._wrong = await machine.run_sync(
                    with_last, self._measured, self.sample.instances, cluster.instances
                )
                await self._add_hours(source, names, cluster)
            errors = self.sample.errors
        except LoadError as error:
            errors = tuple(error.lines)
        if errors and errors != self._errors:
            _log.warning("load not measured", error=errors[0], errors=len(errors))
        if self._errors and not errors:
            _log.info("load is measured again")
        self._errors = errors
        await self._count(cluster)

    async def _add_hours(self, source: LoadSource, names: LoadNames, cluster: Cluster) -> None:
        """Add the hours that have ended to the profiles, a day at a time. Raises LoadError."""
        end = machine.now() // HOUR * HOUR
        begin = max(self._until, end - WEEKS * 7 * _DAY)
        while begin < end:
            part = min(begin + _DAY, end)
            hours = await source.hours(names, begin, part)
            self._measured = await machine.run_sync(with_hours, self._measured, hours, cluster.instances)
            self._until = begin = part
            if begin == end:
                await self._write()

    async def known(self, cluster: Cluster) -> KnownLoad:
        """Return the load of the running instances and the nodes, whether or not it may be used."""
        sample, measured, instances = key = self.sample, self._measured, cluster.instances
        if self._known is None or any(map(is_not, self._known[0], key)):

            def work() -> KnownLoad:
                load = known_load(measured, instances)
                return load._replace(nodes=nodes_to_json(cluster, load.profiles, sample))

            self._known = key, await machine.run_sync(work)
        return self._known[1]

    def obstacle(self, load: KnownLoad) -> str | None:
        """Return why load must not be used; None if it may."""
        least, days = self.settings.min_coverage, (machine.now() - self._until) / _DAY
        if self.sample.instances is None:
            return "MonD measures the load of instances on Xen only"
        if load.coverage < least:
            return f"known for {load.coverage:.0f} % of the instances, expected {least:g} % (min_coverage)"
        return f"last measured {days:.0f} days ago" if days > _LONGEST_DAYS else None

    async def _count(self, cluster: Cluster) -> None:
        """Have plans and tools count the load once an hour, if it may be used."""
        load = await self.known(cluster)
        self.why_unused = self.obstacle(load)
        until = self._until if self.why_unused is None else None
        self.of_decisions = loads_of_decisions(load) if until and self.settings.decisions else {}
        if until != self._counted:
            await self._sync.count_load(load.profiles if until else None)
            self._counted = until

    def present(self) -> PresentLoad | None:
        """Return the present load; None if load is not measured."""
        if not self.on:
            return None
        names, unused = self._measured.keys() & (self.sample.instances or {}), self.why_unused
        return PresentLoad(
            {name: float(self._measured[name].profile.last[0]) for name in names},
            {name: float(figures[0]) for name, figures in self.sample.nodes.items()},
            self.sample.pressure,
            unused or ("the last figures are late" if self.late else None),
        )

    @property
    def _age(self) -> float | None:
        """Seconds since the sample was taken; None before the first one."""
        return None if self._sampled is None else trio.current_time() - self._sampled

    @property
    def late(self) -> bool:
        """Whether the sample is too old."""
        age = self._age
        return age is not None and age > _LATE * self.settings.every_seconds

    async def status(self) -> dict[str, Any]:
        """Return the state of the load, JSON; ``until`` is in seconds of the epoch."""
        cluster = self._sync.led_cluster
        load = await self.known(cluster) if cluster is not None else KnownLoad({}, (), 0.0)
        age = self._age
        return {
            "source": self.settings.source,
            "age_s": None if age is None else round(age, 3),
            "late": self.late,
            "until": self._until or None,
            "coverage": round(load.coverage, 1),
            "unused": self.why_unused,
            "learning": not any(each.counts for each in self._measured.values()),
            "missing": list(load.missing),
            "impossible": self._wrong,
            "errors": list(self._errors),
            "nodes": [
                {
                    "name": node["name"],
                    "now": node["share_now"],
                    "worst": node["share"],
                    "pressure": node["pressure"],
                }
                for node in load.nodes
            ],
        }

    async def _write(self) -> None:
        """Write the file. Failures are logged."""
        try:
            await self._replacements.do(write_profiles, self._path, self._until, self._measured)
        except HtoolsError as error:
            _log.warning("profiles of the load cannot be written", error=str(error))

    async def read(self) -> None:
        """Read what earlier daemons have measured. Failures are logged."""
        try:
            self._until, self._measured = await effect(_read, self._path)
        except FileNotFoundError:
            return
        except (OSError, HtoolsError) as error:
            _log.warning("profiles of the load cannot be read; they are measured again", error=str(error))
            if isinstance(error, DataError):
                with suppress(OSError):
                    await effect(set_aside, self._path)


def make_source(settings: LoadSettings) -> LoadSource:
    """Return the source of the settings, which is not none. Only what it needs is imported."""
    if settings.source == "prometheus":
        from htoolsd.load.prometheus import Prometheus

        return Prometheus(settings)
    if settings.source == "mond":
        from htoolsd.load.mond import MonitoringDaemons

        return MonitoringDaemons(settings)
    from htoolsd.load.program import LoadProgram

    return LoadProgram(settings)


async def errors_of_source(settings: LoadSettings, cluster: Cluster) -> tuple[str, ...]:
    """Ask the source of the settings for the present load, and return its errors, a line each."""
    try:
        sample = await make_source(settings).sample(names_of(cluster))
    except LoadError as error:
        return tuple(error.lines)
    return sample.errors


class _Stored(NamedTuple):
    """The content of the file: profiles as in ``ganeti_htools.backends.load_profiles``, with more."""

    version: Annotated[int, refuse_newer(_VERSION)]
    until: float
    instances: Mapping[str, Any]


def write_profiles(path: str, until: float, measured: Mapping[str, MeasuredInstance]) -> None:
    """Write the file: profiles of the hours until a time. Raises HtoolsError."""
    instances = {
        name: {
            **profile,
            "weeks": b64encode(measured[name].weeks.tobytes()).decode(),
            "uuid": measured[name].uuid,
        }
        for name, profile in load_profiles.to_json(
            {name: each.profile for name, each in measured.items()}
        ).items()
    }
    write_text(path, to_text(_Stored(_VERSION, until, instances)))


def _read(path: str) -> tuple[float, dict[str, MeasuredInstance]]:
    """Raises OSError, HtoolsError; DataError for a damaged file."""
    stored: _Stored = from_bytes(_Stored, read_regular_file(path, _FILE_BYTES))
    measured = dict[str, MeasuredInstance]()
    for name, profile in load_profiles.from_json(stored.instances).items():
        more = Fields(f"load of instance {name}", stored.instances[name])
        try:
            weeks = np.frombuffer(b64decode(more.text("weeks"), validate=True), np.uint8).reshape(HOURS)
        except ValueError:
            raise more.wrong("weeks", "Weeks", f"{HOURS} bytes in base64") from None
        measured[name] = MeasuredInstance(profile, weeks, more.text("uuid"))
    return stored.until, measured
