"""Probes of pools: commands of the administrator that print the free and the total space of a pool."""

from collections.abc import Sequence

import structlog
import trio

from ganeti_htools.backends import values
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.known_storage import UnitSpace
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.nursery import open_nursery
from ganeti_htools.programs import output_of
from htoolsd.config.settings import Settings
from htoolsd.sync.node_storage import storage_report, used_pools
from htoolsd.sync.sync import Sync

_log = structlog.get_logger()

RETRY = 60.0  # seconds until the next attempt after a failure
_PATIENCE = 30.0  # seconds of a command
_OUTPUT_BYTES = 4096  # bytes of each of its outputs


class PoolProbes:
    """Probes the pools of the configuration now and then."""

    def __init__(self, settings: Settings, sync: Sync) -> None:
        self._settings = settings
        self._sync = sync
        self._probed: dict[DesiredUnit, tuple[Sequence[str], float]] = {}  # by which command, and when

    async def poll(self) -> None:
        """Run the probes of pools that are due, at the same time."""
        before, now, seconds = self._sync.model, trio.current_time(), self._settings.now.storage_seconds
        known, probed = before.storage, self._probed
        commands = {pool.unit: pool.probe for pool in known.pools if pool.probe}
        self._probed = probed = {unit: it for unit, it in probed.items() if it[0] == commands.get(unit)}
        due = [unit for unit in commands if unit not in probed or probed[unit][1] <= now - seconds]
        kept = {unit: report for unit, report in known.probes.items() if unit in probed}
        if before.without_reservations is None or not (due or len(kept) < len(known.probes)):
            return
        found = dict[DesiredUnit, UnitSpace]()

        async def measure(unit: DesiredUnit) -> None:
            try:
                found[unit] = await probe(commands[unit])
            except DataError as error:
                _log.warning("pool not probed", pool=str(unit), error=str(error))

        async with open_nursery() as nursery:
            for unit in due:
                nursery.start_soon(measure, unit)
        again = now - max(0.0, seconds - RETRY)  # of a probe that failed
        self._probed |= {unit: (commands[unit], now if unit in found else again) for unit in due}
        clusters = before.without_reservations, self._sync.model.without_reservations
        was, is_now = await self._sync.compute(lambda: [*map(used_pools, clusters)])
        for unit, space in found.items():
            kept[unit] = storage_report({unit: space}, was, is_now, now)
        await self._sync.revise_storage(probes=kept)


async def probe(command: Sequence[str], patience: float = _PATIENCE) -> UnitSpace:
    """Run a command and return the space that it prints: free and total, MiB or with units.

    Raises DataError.
    """
    return _read(command[0], await output_of(command, patience, _OUTPUT_BYTES, "free and total space"))


def _read(name: str, output: bytes) -> UnitSpace:
    """Read what a command has printed. Raises DataError."""
    text = output.decode(errors="replace")
    words = text.split()
    if len(words) != 2:
        raise DataError(f"{name}: expected free and total space, got {values.quote(text.strip())}")
    free, total = (values.read(values.size, word, name) for word in words)
    if not 0 <= free <= total:
        raise DataError(f"{name}: expected free space from 0 to the total, got {free} of {total} MiB")
    return UnitSpace(total, free)
