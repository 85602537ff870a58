"""Every table of the model is asked for."""

from htoolsd.sync import tables
from htoolsd.sync.model import TABLES


def test_each_table_has_a_request() -> None:
    asked = tables.requests()
    assert {kind: set(requests) for kind, requests in asked.items()} == {
        kind: set(names) for kind, names in TABLES.items()
    }


def test_what_an_object_names_is_asked_for_after_it() -> None:
    configuration, _ = tables.requests().values()
    assert list(configuration) == ["instances", "networks", "nodes", "groups", "cluster"]
