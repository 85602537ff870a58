"""Text of metrics, read by the parser of prometheus_client."""

from prometheus_client.parser import text_string_to_metric_families

from htoolsd.metrics.durations import Durations
from htoolsd.metrics.metric import Metric, render

METRICS = (
    Metric("a", "gauge", 'A "quoted" \\ help.', ("group",), lambda s: s["a"]),
    Metric("b_total", "counter", "Counts.", (), lambda s: [[s["b"]]]),
    Metric("c_seconds", "histogram", "Times.", (), lambda s: [[s["c"]]]),
)


def test_text_has_values_and_omits_unknown_ones() -> None:
    durations = Durations()
    durations.add(0.3)
    rows = [['g"\n\\', 1.5], ["h", None], ["i", True]]
    text = render(METRICS, {"a": rows, "b": 3, "c": durations.to_json()})
    a, b, c = text_string_to_metric_families(text)
    assert [(sample.labels["group"], sample.value) for sample in a.samples] == [('g"\n\\', 1.5), ("i", 1.0)]
    assert (a.type, b.type, c.type) == ("gauge", "counter", "histogram")
    assert [(sample.name, sample.value) for sample in b.samples] == [("b_total", 3.0)]
    values = {(sample.name, sample.labels.get("le")): sample.value for sample in c.samples}
    assert values["c_seconds_bucket", "0.25"] == 0
    assert values["c_seconds_bucket", "0.5"] == values["c_seconds_bucket", "+Inf"] == 1
    assert (values["c_seconds_count", None], values["c_seconds_sum", None]) == (1, 0.3)
    assert {sample.name for family in (a, b, c) for sample in family.samples} == {
        name for metric in METRICS for name in metric.sample_names
    }
