"""Ganeti's answers as htoolsd relays them: one JSON object of tables in luxid's own form."""

from collections.abc import Sequence
from typing import Any

from ganeti_htools.luxi.client import AnswerError
from ganeti_htools.luxi.queries import (
    GROUP_FIELDS,
    INSTANCE_FIELDS,
    NETWORK_FIELDS,
    NODE_FIELDS,
    ClusterAnswers,
    QueryRow,
    info,
    rows,
)

FIELDS = {
    "nodes": NODE_FIELDS,
    "instances": INSTANCE_FIELDS,
    "groups": GROUP_FIELDS,
    "networks": NETWORK_FIELDS,
}


def to_json(fields: Sequence[str], table: Sequence[QueryRow]) -> dict[str, Any]:
    """Return a table in luxid's form: a state and a value for each row and field."""
    return {"fields": list(fields), "data": [[_cell(row, field) for field in fields] for row in table]}


def _cell(row: QueryRow, field: str) -> list[Any]:
    if field in row.missing:
        return [row.missing[field].value, None]
    return [0, row.values[field]]


def from_json(document: Any) -> ClusterAnswers:
    """Parse answers from the tables of :func:`to_json`. Raises AnswerError."""
    try:
        tables = {
            name: rows(name.removesuffix("s"), document[name]["fields"], document[name]) for name in FIELDS
        }
        return ClusterAnswers(**tables, info=info(document["info"]))
    except (TypeError, LookupError) as error:
        raise AnswerError("htoolsd's description of the cluster has an unexpected shape") from error
