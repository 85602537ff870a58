"""Requests and clusters in full, for debugging, as records in the style of Ganeti's tools."""

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from ganeti_htools.backends.haskell import show
from ganeti_htools.model.policy import IPolicy, ISpec
from ganeti_htools.model.types import DiskTemplate

# Names by which scripts that read this output know them.
NAMES = {"status": "runSt", "template": "diskTemplate", "snode": "sNode", "pnode": "pNode"}


def record(value: Any) -> str:
    """A value on one line: ``Name {field = value, ...}``."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        inner = ", ".join(f"{NAMES.get(name, name)} = {record(getattr(value, name))}" for name in names)
        return f"{type(value).__name__} {{{inner}}}"
    if isinstance(value, Enum):
        words = value.name.title().replace("_", "")
        return f"Status{words}" if words in ("Down", "Offline") else words
    if isinstance(value, tuple):
        return f"[{','.join(record(item) for item in value)}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def policy_record(policy: IPolicy) -> str:
    def spec(bound: ISpec) -> str:
        figures = (
            f"iSpec{''.join(word.title() for word in field.name.split('_'))} = {getattr(bound, field.name)}"
            for field in fields(bound)
        )
        return f"ISpec {{{', '.join(figures)}}}"

    pairs = (
        f"MinMaxISpecs {{minMaxISpecsMinSpec = {spec(pair.min)}, minMaxISpecsMaxSpec = {spec(pair.max)}}}"
        for pair in policy.minmax
    )
    templates = (_TEMPLATES.get(template, template.name.title()) for template in policy.disk_templates)
    return (
        f"IPolicy {{iPolicyMinMaxISpecs = [{','.join(pairs)}], iPolicyStdSpec = {spec(policy.std)}, "
        f"iPolicyDiskTemplates = [{','.join(f'DT{template}' for template in templates)}], "
        f"iPolicyVcpuRatio = {show(policy.vcpu_ratio)}, iPolicySpindleRatio = {show(policy.spindle_ratio)}}}"
    )


_TEMPLATES = {DiskTemplate.SHARED_FILE: "SharedFile", DiskTemplate.DRBD: "Drbd8"}
