"""A metric: its one declaration, and its text in the format of Prometheus."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # importing prometheus_client takes long
    from prometheus_client.metrics_core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Document = Mapping[str, Any]
# The values of the labels, then the value: a number, None if it is unknown. Histograms and summaries have the
# JSON of Durations.
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; ``rows`` returns its values from a document, for example the daemon's status."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "summary"]
    doc: str
    labels: tuple[str, ...]
    rows: Callable[[Document], Iterable[Row]]

    @property
    def sample_names(self) -> list[str]:
        """The names of its samples."""
        parts = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
        return [self.name + part for part in parts.get(self.kind, ("",))]


def render(metrics: Iterable[Metric], document: Document) -> str:
    """Return the metrics in the text format. The first call takes a tenth of a second."""
    from prometheus_client import CollectorRegistry, generate_latest  # imported late: few daemons need it
    from prometheus_client.registry import Collector

    class Families(Collector):
        def collect(self) -> "Iterator[Family]":
            return (_family(metric, document) for metric in metrics)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families())
    return generate_latest(registry).decode()


def _family(metric: Metric, document: Document) -> "Family":
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        SummaryMetricFamily,
    )

    rows = [(list(map(str, labels)), value) for *labels, value in metric.rows(document) if value is not None]
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for labels, value in rows:
            buckets = [*((str(bound), count) for bound, count in value["buckets"]), ("+Inf", value["count"])]
            histogram.add_metric(labels, buckets, value["sum_s"])
        return histogram
    if metric.kind == "summary":
        summary = SummaryMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for labels, value in rows:
            summary.add_metric(labels, value["count"], value["sum_s"])
        return summary
    family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(
        metric.name, metric.doc, labels=metric.labels
    )
    for labels, value in rows:
        family.add_metric(labels, float(value))
    return family
