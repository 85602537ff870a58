"""Settings of the measured load: the table ``[load]`` of the configuration file, and its queries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from ganeti_htools.model.errors import DataError
from ganeti_htools.records import Valid
from htoolsd.config.keys import check_program, checked, one_of


class Exporter(NamedTuple):
    """The queries for what an exporter measures of instances; ``label`` names the instance.

    The same units as in the keys of :class:`LoadSettings`. An empty query: not measured.
    """

    label: str
    cpu: str
    memory: str
    disk: str
    network: str


_DISKS = "device!~'(dm-|drbd|fd|loop|md|ram|sr|zram).*'"
_NICS = "device!~'(lo|br|bond|docker|tap|tun|veth|vir|vlan).*'"

_GUESTS = Exporter(
    "instance",
    "sum by (instance) (rate(node_cpu_seconds_total{mode!~'idle|iowait|steal'}[5m]))",
    "sum by (instance) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)",
    f"sum by (instance) (rate(node_disk_read_bytes_total{{{_DISKS}}}[5m])"
    f" + rate(node_disk_written_bytes_total{{{_DISKS}}}[5m]))",
    f"sum by (instance) (rate(node_network_receive_bytes_total{{{_NICS}}}[5m])"
    f" + rate(node_network_transmit_bytes_total{{{_NICS}}}[5m]))",
)
EXPORTERS = {
    # Debian's prometheus-node-exporter inside the instances.
    "node": _GUESTS,
    # Debian's prometheus-process-exporter on the nodes, with contrib/prometheus/process-exporter.yml.
    "process": Exporter(
        "groupname",
        "sum by (groupname) (rate(namedprocess_namegroup_cpu_seconds_total[5m]))",
        "sum by (groupname) (namedprocess_namegroup_memory_bytes{memtype='resident'})",
        "sum by (groupname) (rate(namedprocess_namegroup_read_bytes_total[5m])"
        " + rate(namedprocess_namegroup_write_bytes_total[5m]))",
        "",
    ),
    # node_exporter's textfile collector on the nodes, with contrib/prometheus/ganeti-load.
    "textfile": Exporter(
        "name",
        "sum by (name) (rate(ganeti_instance_cpu_seconds_total[5m]))",
        "sum by (name) (ganeti_instance_memory_bytes)",
        "sum by (name) (rate(ganeti_instance_disk_bytes_total[5m]))",
        "sum by (name) (rate(ganeti_instance_network_bytes_total[5m]))",
    ),
}
_PRESSURE = "max by (instance) ({})".format(
    " or ".join(
        f"label_replace(rate(node_pressure_{kind}_waiting_seconds_total[5m]), 'of', '{kind}', '', '')"
        for kind in ("cpu", "memory", "io")
    )
)


def _check_url(url: str) -> None:
    """Raises DataError."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username or not url.isprintable():
        raise DataError("expected the URL of a server, like https://prometheus.example.com:9090")


def _check_pattern(pattern: str) -> None:
    """Raises DataError."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise DataError(f"expected a regular expression: {error}") from None


_OFF = "none"  # as a query
_QUERY = f"of instances; empty: that of exporter; {_OFF}: not measured"
_NODE_QUERY = f"of nodes; empty: node_exporter's; {_OFF}: not measured"
_PERCENT = Valid("a number from 0 to 100", lambda value: 0 <= value <= 100)


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The keys of ``[load]``."""

    source: Annotated[
        str, one_of("none", "prometheus", "mond", "program"), "none, prometheus, mond (CPU only), program"
    ] = "none"
    every_seconds: Annotated[float, "how often the source is asked"] = 300.0
    timeout_seconds: Annotated[float, "longest time for an answer"] = 30.0
    min_coverage: Annotated[
        float, _PERCENT, "percentage of instances whose load must be known, otherwise load is not used"
    ] = 80.0
    decisions: Annotated[bool, "whether decisions count the measured load of nodes"] = False
    program: Annotated[
        str, checked(check_program), "program that prints lines INSTANCE CORES BYTES BYTES/S BYTES/S"
    ] = ""
    url: Annotated[str, checked(_check_url), "URL of Prometheus"] = ""
    ca_file: Annotated[str, "certificates that verify the server; empty: the system's"] = ""
    token_file: Annotated[str, "file with the token that the server expects; empty: none"] = ""
    netrc_file: Annotated[str, "file with user and password for the server, netrc(5); empty: none"] = ""
    exporter: Annotated[
        str,
        one_of(*EXPORTERS),
        "exporter that measures instances: node (inside), process (kvm's), textfile (ganeti-load)",
    ] = "node"
    instance_label: Annotated[str, "label that names the instance; empty: that of exporter"] = ""
    strip: Annotated[
        str, checked(_check_pattern), "pattern of what is not part of the name in that label, and in instance"
    ] = ":[0-9]+$"
    cpu: Annotated[str, f"query for CPU (cores) {_QUERY}"] = ""
    memory: Annotated[str, f"query for memory (bytes) {_QUERY}"] = ""
    disk: Annotated[str, f"query for disk (bytes/s) {_QUERY}"] = ""
    network: Annotated[str, f"query for network (bytes/s) {_QUERY}"] = ""
    node_cpu: Annotated[str, f"query for CPU (cores) {_NODE_QUERY}"] = ""
    node_memory: Annotated[str, f"query for memory (bytes) {_NODE_QUERY}"] = ""
    node_disk: Annotated[str, f"query for disk (bytes/s) {_NODE_QUERY}"] = ""
    node_network: Annotated[str, f"query for network (bytes/s) {_NODE_QUERY}"] = ""
    node_pressure: Annotated[str, f"query for the highest pressure (0 to 1) {_NODE_QUERY}"] = ""

    def __post_init__(self) -> None:
        """Check that the source has what it needs. Raises DataError."""
        for source, key in (("prometheus", "url"), ("program", "program")):
            if self.source == source and not getattr(self, key):
                raise DataError(f"{key}: expected a value, because source is {source}")
        if self.token_file and self.netrc_file:
            raise DataError("token_file, netrc_file: expected one of them")

    @property
    def label(self) -> str:
        """The label that names the instance."""
        return self.instance_label or EXPORTERS[self.exporter].label

    @property
    def instance_queries(self) -> dict[str, str]:
        """The queries about instances by key, in the order of the kinds of load; empty: not measured."""
        return self._queries(EXPORTERS[self.exporter]._asdict(), "")

    @property
    def node_queries(self) -> dict[str, str]:
        """The queries about nodes by key: those of the kinds of load in their order, and pressure."""
        return self._queries({**_GUESTS._asdict(), "pressure": _PRESSURE}, "node_")

    def _queries(self, ready: Mapping[str, str], prefix: str) -> dict[str, str]:
        keys = {f"{prefix}{kind}": text for kind, text in ready.items() if kind != "label"}
        chosen = {key: getattr(self, key) or text for key, text in keys.items()}
        return {key: "" if text == _OFF else text for key, text in chosen.items()}
