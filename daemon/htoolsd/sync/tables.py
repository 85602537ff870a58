"""What luxid is asked for, table by table."""

from collections.abc import Sequence

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.framing import decode
from ganeti_htools.luxi.queries import INFO_KEYS, Row
from htoolsd.sync.asking import Request
from htoolsd.sync.model import CONFIGURATION, LIVE
from htoolsd.sync.rereading import Rereader

# The order of the queries. What an object names is read after the object itself, so it is there unless it
# was removed in between.
_CONFIGURATION = {
    "instances": ("instance", queries.INSTANCE_CONFIG_FIELDS),
    "networks": ("network", queries.NETWORK_FIELDS),
    "nodes": ("node", queries.NODE_CONFIG_FIELDS),
    "groups": ("group", queries.GROUP_FIELDS),
}
_LIVE = {
    "live_nodes": ("node", queries.NODE_LIVE_FIELDS),
    "live_instances": ("instance", queries.INSTANCE_LIVE_FIELDS),
}


def requests() -> dict[str, dict[str, Request]]:
    """New requests for all tables, by the kind of data and the table's name."""
    return {
        CONFIGURATION: {
            **{name: _query(*what) for name, what in _CONFIGURATION.items()},
            "cluster": Request("QueryClusterInfo", (), _cluster_row),
        },
        LIVE: {name: _query(*what) for name, what in _LIVE.items()},
    }


def _query(what: str, fields: Sequence[str]) -> Request:
    return Request("Query", [what, fields, None], Rereader(what, fields).read)


def _cluster_row(message: bytes) -> object:
    """An answer to QueryClusterInfo whose result is one row with the fields that we use."""
    answer = decode(message)
    match answer:
        case {"success": True, "result": result}:
            info = queries.info(result)
            row = Row({key: info[key] for key in INFO_KEYS if key in info}, {})
            return {"success": True, "result": [row]}
    return answer
