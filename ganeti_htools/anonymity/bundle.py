"""The members of a bundle: a cluster and documents without names, as text."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ganeti_htools.anonymity.cluster import rename_cluster, with_coarse_figures
from ganeti_htools.anonymity.documents import DocumentRenamer, ids_in, with_coarse_sizes
from ganeti_htools.anonymity.names import Collector, NameKind, Rename, Substitutes
from ganeti_htools.anonymity.tags import TagRenamer
from ganeti_htools.anonymity.text import FreeText, Text, is_plain, leftovers
from ganeti_htools.backends import text
from ganeti_htools.model.cluster import Cluster

CLUSTER = "cluster.data"
LINES = ".jsonl"  # ends the name of a member with one document on each line


class Bundle(NamedTuple):
    """Texts by names of members, counts of replaced names by kind, and the names that are still there."""

    members: dict[str, str]
    replaced: dict[str, int]
    leftovers: list[str]


def bundle(
    cluster: Cluster | None,
    documents: Mapping[str, Any],
    own: frozenset[str],
    names: Iterable[tuple[NameKind, str]] = (),
    coarse: bool = False,
) -> Bundle:
    """Replace all names in a cluster and in documents by the names of their members.

    ``own`` are words that tell nothing (:func:`.text.words`); ``names`` are further names to replace.
    """
    tags = cluster.tags if cluster else ()
    own |= {*ids_in(documents)}

    def documents_with(rename: Rename, plain: Text) -> dict[str, Any]:
        renamer = DocumentRenamer(rename, TagRenamer(tags, rename), plain, own)
        return {name: renamer(value, name.partition(".")[0]) for name, value in documents.items()}

    collector = Collector()
    collector.names.update(names)
    if cluster:
        rename_cluster(cluster, collector)
    documents_with(collector, str)
    substitutes = Substitutes(collector.names)
    written = documents_with(substitutes, FreeText(substitutes, own))
    members = {}
    if cluster:
        renamed = rename_cluster(cluster, substitutes)
        members[CLUSTER] = text.dump(with_coarse_figures(renamed) if coarse else renamed)
    for name, value in (with_coarse_sizes(written) if coarse else written).items():
        members[name] = _lines(value) if name.endswith(LINES) else f"{_json(value, 1)}\n"
    known = substitutes.by_name
    suspects = [name for name in known if not is_plain(name, own)]
    left = leftovers("\n".join((*members, *members.values())), suspects, own)
    kinds = (kind for kind, _ in known.values() if kind is not NameKind.DISK_CLASS)
    return Bundle(members, Counter(kind.name.lower() for kind in kinds), left)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _lines(values: Iterable[Any]) -> str:
    return "".join(f"{_json(value)}\n" for value in values)
