"""Load measured by Prometheus: its HTTP API, ``/api/v1/query`` and ``query_range``."""

import re
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import httpx
import numpy as np
import orjson

from ganeti_htools import machine
from ganeti_htools.backends.values import quote
from ganeti_htools.model.columns import Floats
from ganeti_htools.model.errors import DataError, HtoolsError, on_one_line
from ganeti_htools.model.load import LOAD_KINDS
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.rapi_http import get_document, login, tls
from htoolsd.config.http import read_token
from htoolsd.config.load import LoadSettings
from htoolsd.load.figures import HOUR, SCALE, LoadError, LoadHours, LoadNames, LoadSample
from htoolsd.threads import effect, run_by_size

_MOST = 1 << 25  # bytes of an answer
_EXPLAINED = (400, 422)  # for queries that cannot be parsed or executed; the answer says why


class Query(NamedTuple):
    """A query, the key that declares it, and the objects of its series.

    ``names`` are those of the objects by shorter ones. The ``label`` has one, without what ``strip`` matches.
    ``optional``: no series is an answer.
    """

    key: str
    text: str
    kind: str
    names: Mapping[str, str]
    label: str
    strip: str
    optional: bool = False


def values_of(answer: bytes, query: Query, begin: float = 0.0, count: int = 0) -> dict[str, Floats]:
    """Return the value in an answer by name; with a ``count``, the values of so many hours from ``begin``.

    A missing value is NaN. Series of unknown objects are left out. Raises DataError.
    """
    found, other = dict[str, Floats](), ""
    try:
        document = orjson.loads(answer)
        if (error := document.get("error")) is not None:
            raise DataError(f"the server answers {on_one_line(str(error))}")
        data = document["data"]
        if data["resultType"] != ("matrix" if count else "vector"):
            raise DataError(f"got a {data['resultType']}")
        for series in data["result"]:
            label = str(series["metric"].get(query.label, ""))
            name = query.names.get(re.sub(query.strip, "", label))
            if name is None:
                other = label or other
                continue
            if name in found:
                raise DataError(f"got two series for {name}; sum by ({query.label}) (...) makes them one")
            values = series["values"] if count else [(begin, series["value"][1])]
            found[name] = np.full(max(count, 1), np.nan)
            for time, value in values:
                found[name][round((time - begin) / HOUR)] = float(value)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DataError("got no answer of Prometheus") from None
    if not data["result"] and not query.optional:
        raise DataError("got no series")
    if not found and not query.optional:
        what = f"names no {query.kind}, but {quote(other)}" if other else "is missing"
        raise DataError(f"label {query.label} {what}")
    return found


class Prometheus:
    """The server of the settings as a source of load."""

    def __init__(self, settings: LoadSettings) -> None:
        self._settings = settings

    async def sample(self, names: LoadNames) -> LoadSample:
        """Return the present load. Raises LoadError."""
        of_instances = self._about_instances(names)
        *of_nodes, pressure = [
            Query(key, text, "node", names.nodes, "instance", self._settings.strip, key == "node_pressure")
            for key, text in self._settings.node_queries.items()
        ]
        found, errors = await self._ask([*of_instances, *of_nodes, pressure])
        if any(each.key in errors for each in of_instances):
            raise LoadError([*errors.values()])
        return LoadSample(
            {name: each[:, 0] for name, each in _stack(of_instances, found).items()},
            {name: each[:, 0] for name, each in _stack(of_nodes, found).items()},
            {name: float(each[0]) for name, each in found[pressure.key].items() if each[0] >= 0},
            tuple(errors.values()),
        )

    async def hours(self, names: LoadNames, begin: float, end: float) -> LoadHours:
        """Return the hours from ``begin`` to ``end``. Raises LoadError."""
        first, count = begin + HOUR, round((end - begin) / HOUR)  # a time ends its hour
        queries, parts = self._about_instances(names), list[dict[str, Floats]]()
        for form in ("avg_over_time(({})[1h:5m])", "quantile_over_time(0.95, ({})[1h:5m])"):
            asked = [
                each._replace(text=each.text and form.format(each.text), optional=True) for each in queries
            ]
            found, errors = await self._ask(asked, first, count)
            if errors:
                raise LoadError([*errors.values()])
            parts.append(await machine.run_sync(_stack, asked, found, count))
        mean, peak = parts
        return LoadHours(begin, mean, peak)

    def _about_instances(self, names: LoadNames) -> list[Query]:
        settings = self._settings
        return [
            Query(key, text, "instance", names.instances, settings.label, settings.strip)
            for key, text in settings.instance_queries.items()
        ]

    async def _ask(
        self, queries: Sequence[Query], first: float = 0.0, count: int = 0
    ) -> tuple[dict[str, dict[str, Floats]], dict[str, str]]:
        """Ask queries at the same time; return their values and errors by key. Empty queries have no values.

        The rest is as with :func:`values_of`. Raises LoadError for unusable secrets.
        """
        settings, errors = self._settings, dict[str, str]()
        found: dict[str, dict[str, Floats]] = {each.key: {} for each in queries}
        span = {"start": first, "end": first + HOUR * (count - 1), "step": HOUR} if count else {}
        base = httpx.URL(f"{settings.url.rstrip('/')}/api/v1/query{'_range' * bool(count)}")

        async def ask(client: httpx.AsyncClient, query: Query) -> None:
            url = str(base.copy_with(params={"query": query.text, **span}))
            try:
                answer = await get_document(client, url, settings.timeout_seconds, _MOST, _EXPLAINED)
                work = partial(values_of, answer, query, first, count)
                found[query.key] = await run_by_size(len(answer), work, abandon=True)
            except HtoolsError as error:
                what = f"{str(error).removeprefix(f'{url}: ')}; expected one series for each {query.kind}"
                errors[query.key] = on_one_line(f"{query.key}: {query.text}: {what}")

        try:
            client = await effect(self.client)
        except HtoolsError as error:
            raise LoadError([str(error)]) from None
        async with client, open_nursery() as nursery:
            for query in queries:
                if query.text:
                    nursery.start_soon(ask, client, query)
        return found, {each.key: errors[each.key] for each in queries if each.key in errors}

    def client(self) -> httpx.AsyncClient:
        """Return a client with the secrets of the settings; reads files. Raises HtoolsError."""
        settings, headers = self._settings, dict[str, str]()
        if settings.token_file:
            headers["Authorization"] = f"Bearer {read_token(settings.token_file).decode()}"
        return httpx.AsyncClient(
            verify=tls(settings.ca_file) if settings.ca_file else ssl.create_default_context(),
            auth=login(settings.url, settings.netrc_file) if settings.netrc_file else None,
            headers=headers,
            timeout=settings.timeout_seconds,
        )


def _stack(
    queries: Sequence[Query], found: Mapping[str, Mapping[str, Floats]], count: int = 1
) -> dict[str, Floats]:
    """Return load by name: arrays by kind of load and hour, in the units of profiles.

    An object without disk or network has no series of it, so that its figure is 0, as that of a kind
    without a query.
    """
    nothing, unknown = np.zeros(count), np.full(count, np.nan)
    missing = [
        unknown if each.text and kind in ("cpu", "mem") else nothing
        for kind, each in zip(LOAD_KINDS, queries, strict=True)
    ]
    scale = np.array(SCALE)[:, None]
    names = {name for each in queries for name in found[each.key]}
    return {
        name: np.array(
            [found[each.key].get(name, other) for each, other in zip(queries, missing, strict=True)]
        )
        / scale
        for name in names
    }
