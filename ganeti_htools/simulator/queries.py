"""luxid's queries: columns by name and rows by a filter; and the older form, with rows by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

import orjson

from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator import storage_units, tables
from ganeti_htools.simulator.fields import NORMAL, UNKNOWN, Entry, Field, QueryTable
from ganeti_htools.simulator.opcodes import prereq_error
from ganeti_htools.simulator.world import World

DEEPEST = 100  # nesting of a filter

Matcher = Callable[[World, Any], bool]


def _unknown(name: str) -> Field:
    return Field(name, "unknown", f"Unknown field '{name}'", lambda _world, _row: (UNKNOWN, None))


def _columns(table: QueryTable, names: Iterable[str]) -> list[tuple[str, Field]]:
    return [(name, table.fields.get(name) or _unknown(name)) for name in names]


def field_definitions(table: QueryTable, names: Sequence[str] | None) -> list[dict[str, str]]:
    """Return the descriptions of columns; of all columns if ``names`` is None."""
    columns = _columns(table, sorted(table.fields) if names is None else names)
    return [
        {"name": name, "title": field.title, "kind": field.kind, "doc": field.doc} for name, field in columns
    ]


def query(
    world: World,
    table: QueryTable,
    rows: Iterable[Any],
    names: Sequence[str],
    matches: Matcher,
    known: "RowTexts | None" = None,
) -> dict[str, Any]:
    """Return the answer to Query: the columns, and their statuses and values for every matching row."""
    columns = [field for _, field in _columns(table, names)]

    def entries(row: Any) -> list[Entry]:
        return [field.value(world, row) for field in columns]

    chosen = (row for row in rows if matches(world, row))
    data: list[Any] = (
        known.texts(tuple(names), chosen, entries)
        if known and all(field.alone for field in columns)
        else [entries(row) for row in chosen]
    )
    return {"fields": field_definitions(table, names), "data": data}


class RowTexts:
    """The JSON text of immutable rows in the last answer, for each selection of columns."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, ...], dict[int, tuple[Any, orjson.Fragment]]] = {}

    def texts(
        self, names: tuple[str, ...], rows: Iterable[Any], entries: Callable[[Any], list[Entry]]
    ) -> list[orjson.Fragment]:
        """Return the text of these rows, encoded only where the last answer did not have it."""
        before = self._texts.get(names, {})
        now = self._texts[names] = {}
        for row in rows:
            # The entry keeps the row alive, so that no other row gets its id.
            now[id(row)] = before.get(id(row)) or (row, orjson.Fragment(orjson.dumps(entries(row))))
        return [text for _, text in now.values()]


def classic_query(
    world: World, table: QueryTable, rows: Iterable[Any], wanted: Sequence[Any], names: Sequence[str]
) -> list[list[Any]]:
    """Return the answer to the older queries: values only. Raises OpcodeError for unknown columns."""
    missing = [name for name in names if name not in table.fields]
    if missing:
        raise prereq_error(f"Unknown output fields selected: {', '.join(missing)}", "wrong_input")
    label = table.fields[table.name]
    columns = [table.fields[name] for name in names]
    return [
        [field.value(world, row)[1] for field in columns]
        for row in rows
        if not wanted or label.value(world, row)[1] in wanted
    ]


def matcher(table: QueryTable, expression: Any, depth: int = 0) -> Matcher:
    """Return the predicate of a filter. Raises DataError for an invalid filter."""
    if depth > DEEPEST:
        raise DataError("Cannot deserialise filter, it is nested too deeply")
    match expression:
        case None:
            return lambda _world, _row: True
        case ["|", *parts]:
            alternatives = [matcher(table, part, depth + 1) for part in parts]
            return lambda world, row: any(fits(world, row) for fits in alternatives)
        case ["&", *parts]:
            conditions = [matcher(table, part, depth + 1) for part in parts]
            return lambda world, row: all(fits(world, row) for fits in conditions)
        case ["!", part]:
            fits = matcher(table, part, depth + 1)
            return lambda world, row: not fits(world, row)
        case ["?", str(name)]:
            return _comparison(table, name, bool)
        case ["=" | "==", str(name), value]:
            return _comparison(table, name, lambda found: bool(found == value))
        case ["!=", str(name), value]:
            return _comparison(table, name, lambda found: bool(found != value))
        case ["<" | "<=" | ">" | ">=" as operator, str(name), int() | float() | str() as value]:
            return _comparison(table, name, lambda found: _ordered(_ORDERS[operator], value, found))
        case ["=[]", str(name), value]:
            return _comparison(table, name, lambda found: isinstance(found, list | tuple) and value in found)
        case [str(operand), *_]:
            raise DataError(f"Unknown filter operand '{operand}'")
    raise DataError(f"Cannot deserialise filter, expected an array, got {as_json(expression)}")


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _ordered(holds: Callable[[Any, Any], bool], value: Any, found: Any) -> bool:
    return isinstance(found, str) is isinstance(value, str) and holds(found, value)


def _comparison(table: QueryTable, name: str, compare: Callable[[Any], bool]) -> Matcher:
    field = table.fields.get(name) or _unknown(name)

    def fits(world: World, row: Any) -> bool:
        status, value = field.value(world, row)
        if status == UNKNOWN:
            raise prereq_error(f"Filter refers to unknown field '{name}'", "wrong_input")
        return status == NORMAL and compare(value)

    return fits


def as_json(value: Any) -> str:
    """Return a value as luxid quotes it in errors."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # nested too deeply
        return "..."


def cluster_info(world: World) -> dict[str, Any]:
    """Return the answer to QueryClusterInfo. Values that files lack are those of a new cluster."""
    cluster = world.cluster
    return {
        "software_version": "3.0.2",
        "protocol_version": 3000000,
        "config_version": 3000000,
        "os_api_version": 20,
        "export_version": 0,
        "vcs_version": "(ganeti) version 3.0.2",
        "architecture": ["64bits", "x86_64"],
        "name": world.name,
        "master": world.master,
        # With KVM, htools would replace the memory that nodes use themselves by a constant.
        "default_hypervisor": "fake",
        "default_iallocator": "hail",
        "default_iallocator_params": {},
        "enabled_hypervisors": ["fake"],
        "ipolicy": tables.ipolicy(cluster.ipolicy),
        "candidate_pool_size": world.candidate_pool,
        "max_running_jobs": 20,
        "max_tracked_jobs": 25,
        "tags": cluster.tags,
        **storage_units.settings(world),
    }
