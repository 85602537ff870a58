"""The dynamic load of instances and nodes, from a file (``-U``) or the monitoring daemons (``--mond``)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ganeti_htools.files import read_bytes, read_text
from ganeti_htools.model.cluster import Cluster, with_loads, without_loads
from ganeti_htools.model.errors import HtoolsError, during

if TYPE_CHECKING:
    from ganeti_htools.backends.mond import MondReports


class DynamicLoad(NamedTuple):
    """Sources of dynamic load.

    ``utilisation`` is the path of a file with a line per instance; ``ignore`` sets all loads to 0. With
    ``mond`` the CPU load comes from the monitoring daemons of all nodes, or from the file ``mond_data``.
    ``xen`` requests the load of each instance instead of the nodes'. With ``all_required`` missing reports
    are an error, not a warning.
    """

    utilisation: str | None = None
    ignore: bool = False
    mond: bool = False
    mond_data: str | None = None
    xen: bool = False
    all_required: bool = False


def with_dynamic_load(cluster: Cluster, wanted: DynamicLoad, warn: Callable[[str], None]) -> Cluster:
    """Return the cluster with the requested load. ``warn`` gets a line per problem. Raises HtoolsError."""
    loads = {}
    if wanted.utilisation is not None:
        from ganeti_htools.backends import utilisation  # like mond, seldom needed

        content = read_text(wanted.utilisation)
        with during("can't parse utilisation data"):
            loads = utilisation.parse(content, wanted.utilisation)
    if wanted.ignore:
        return without_loads(cluster)
    cluster = with_loads(cluster, loads)
    return _with_reports(cluster, wanted, warn) if wanted.mond else cluster


def _with_reports(cluster: Cluster, wanted: DynamicLoad, warn: Callable[[str], None]) -> Cluster:
    """Return the cluster with the CPU load that the monitoring daemons report. Raises HtoolsError."""
    from ganeti_htools.backends import mond

    cluster, problems = mond.apply(cluster, _reports(cluster, wanted, warn), wanted.xen)
    for problem in problems:
        warn(problem)
    if problems and wanted.all_required:
        raise HtoolsError("Not all required data available")
    return cluster


def _reports(cluster: Cluster, wanted: DynamicLoad, warn: Callable[[str], None]) -> "MondReports":
    from ganeti_htools.backends import mond

    if wanted.mond_data is not None:
        content = read_bytes(wanted.mond_data)
        with during("can't parse MonD data"):
            return mond.parse(content, wanted.mond_data)
    from ganeti_htools.sources import mond_http

    nodes = [node.name for node in cluster.nodes]
    reports, problems = mond_http.query(nodes, mond.collector(wanted.xen))
    for problem in problems:
        warn(problem)
    return reports
