"""JSON documents without names: status, history, plans, log lines, configurations, iallocator requests.

The key of a value says what it is: a name of some kind, a word of the format, or else free text. Words that
only Ganeti's formats have are here, so that they are own words too: chroot fake i_pri_memory i_pri_up_memory
kernel_path lxc ovs rw ssh_port xen-hvm xen-pvm.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ganeti_htools.anonymity.names import NameKind, Rename
from ganeti_htools.anonymity.tags import TagRenamer, rename_class, rename_id
from ganeti_htools.anonymity.text import Text, is_plain, is_word, rounded, with_rounded_sizes

# Keys of names: of one, of several in a list, or of an object with names as keys.
_KINDS: Mapping[NameKind, str] = {
    NameKind.NODE: (
        "node nodes pnode snode from to primary secondary master restrict-to-nodes relocate_from places"
        " silent updating powered prefer never this_node"
    ),
    NameKind.INSTANCE: "instance instances exclude_instances consumer consumers",
    NameKind.GROUP: "group groups group_name target_groups",
    NameKind.UUID: "uuid network networks nodegroups",
    NameKind.OS: "os",
    NameKind.NETWORK: "link bridge ovs_link ovs_name",
    NameKind.MAC: "mac",
    NameKind.ADDRESS: "ip primary_ip secondary_ip",
    NameKind.UNIT: "vg metavg key provider",
    NameKind.HOST: "cluster_name host hosts",
    NameKind.USER: "user read decide act",
    NameKind.PATH: "path program url oob_program",
}
_KIND = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}
_ABOUT = {
    "nodegroups": NameKind.GROUP,
    "request": NameKind.INSTANCE,
    "cluster": NameKind.HOST,
}  # the kind of an object's key "name"
_TAGS = {"tags", "cluster_tags"}
# Keys of words of our formats, which stay although an object may be called so.
_WORDS = {
    *("kind", "state", "status", "method", "tool", "mode", "move", "type", "trigger", "remedy", "policy"),
    *("ending", "outcome", "opcodes", "level", "disk_template", "admin_state", "alloc_policy", "hypervisor"),
    *("enabled_hypervisors", "evac_mode", "dev_type", "disk-templates", "on_change", "claimant", "request"),
}
_SIZES = re.compile("mem|disk|mib|^(?:size|total|free|used|reserved|taken)$")  # in keys
_WHOLE = {"arguments", "configuration"}  # objects of which each text is one name, or a word of ours
_JSON = {"asked"}  # JSON as text
_IDS = {"id", "run", "plan", "continues", "decision"}
_ID = re.compile("[0-9a-f]{12}")


class DocumentRenamer:
    """Replaces the names in documents; free text by ``text``. ``own`` are our own words, in lower case."""

    def __init__(self, rename: Rename, tag: TagRenamer, text: Text, own: Container[str]) -> None:
        self._rename = rename
        self._tag = tag
        self._text = text
        self._own = own

    def __call__(
        self, value: Any, key: str = "", about: NameKind = NameKind.WORD, whole: bool = False
    ) -> Any:
        """Replace the names in the value of a key, of an object that is ``about`` a kind of things.

        ``whole``: each text is one name or a word.
        """
        whole = whole or key in _WHOLE
        about = _ABOUT.get(key) or _KIND.get(key, about)
        match value:
            case [str(kind), str(name), *params] if key == "sunit":
                return [kind, self._name(NameKind.UNIT, name), *self(params, "key")]
            case dict():
                return {
                    self._key(each, key): self(below, each, about, whole) for each, below in value.items()
                }
            case list() | tuple():
                # An object in a list is a record: its keys are no names.
                keys = ("" if isinstance(below, dict) else key for below in value)
                return [self(below, each, about, whole) for below, each in zip(value, keys, strict=True)]
            case str():
                return self._string(value, key, about, whole)
        return value

    def _key(self, name: str, parent: str) -> str:
        if kind := _KIND.get(parent):
            return self._name(kind, name)
        return name if name.lower() in self._own else self._text(name)

    def _string(self, value: str, key: str, about: NameKind, whole: bool) -> str:
        kind, plain = _KIND.get(key), is_plain(value, self._own)
        if plain and (key in _WORDS or kind is NameKind.PATH):
            return value
        if key in _JSON:
            with suppress(ValueError):
                return json.dumps(self(json.loads(value), "request", whole=whole), ensure_ascii=False)
        if key in _TAGS:
            return self._tag(value)
        if kind or (key == "name" and about is not NameKind.WORD):
            return self._name(kind or about, value)
        one = plain or is_word(value) or not whole
        return self._text(value) if one else self._name(NameKind.WORD, value)

    def _name(self, kind: NameKind, name: str) -> str:
        return (
            rename_class(self._rename, name)
            if name.startswith("CUSTOM_")
            else rename_id(self._rename, kind, name)
        )


def ids_in(value: Any, key: str = "") -> Iterator[str]:
    """Yield the ids of plans and decisions in a document."""
    match value:
        case dict():
            for each, below in value.items():
                yield from ids_in(below, each)
        case list() | tuple():
            for below in value:
                yield from ids_in(below, key)
        case str() if key in _IDS and _ID.fullmatch(value):
            yield value


def with_coarse_sizes(value: Any, key: str = "") -> Any:
    """Round the sizes in a document: by their keys, and in texts by their unit."""
    match value:
        case dict():
            return {each: with_coarse_sizes(below, each) for each, below in value.items()}
        case list() | tuple():
            return [with_coarse_sizes(below, key) for below in value]
        case str():
            return with_rounded_sizes(value)
        case int() | float() if not isinstance(value, bool) and _SIZES.search(key):
            return rounded(value)
    return value
