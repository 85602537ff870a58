"""Load that Ganeti's monitoring daemons report: CPU only, of instances on Xen, otherwise of nodes."""

import numpy as np

from ganeti_htools import machine
from ganeti_htools.backends import mond
from ganeti_htools.model.columns import Floats
from ganeti_htools.sources.mond_http import PORT, reports
from htoolsd.config.load import LoadSettings
from htoolsd.load.figures import LoadError, LoadNames, LoadSample, SampledHours


class MonitoringDaemons(SampledHours):
    """The monitoring daemons of all nodes as a source of load."""

    def __init__(self, settings: LoadSettings, port: int = PORT) -> None:
        super().__init__()
        self._settings, self._port = settings, port

    async def sample(self, names: LoadNames) -> LoadSample:
        """Return the present load. Raises LoadError."""
        nodes, collector = sorted({*names.nodes.values()}), mond.collector(names.xen)
        patience = self._settings.timeout_seconds
        found, problems = await reports(nodes, collector, port=self._port, patience=patience)
        cpu = dict[str, object]()
        for node, report in found.items():
            if isinstance(data := report.get(collector), dict):
                cpu |= data if names.xen else {node: data.get("cpu_total")}
            else:
                problems += (f"{node}: MonD's {collector} has no figures; expected an object",)
        if problems:
            raise LoadError(problems)
        known = {name: _with_cpu(value) for name, value in cpu.items() if type(value) in (int, float)}
        if not names.xen:
            return LoadSample(None, known, {})
        instances = {names.instances[name]: each for name, each in known.items() if name in names.instances}
        self.add(machine.now(), instances)
        return LoadSample(instances, {}, {})


def _with_cpu(cores: object) -> Floats:
    return np.array([cores, 0.0, 0.0, 0.0], np.float64)
