"""Instance policies in the text format: the columns of a line in its last section."""

from dataclasses import astuple

from ganeti_htools.backends import haskell, values
from ganeti_htools.backends.sections import SectionFormat, SectionLine
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.policy import IPolicy, ISpec, MinMax
from ganeti_htools.model.types import DiskTemplate

POLICIES = SectionFormat(
    "policy",
    "policies",
    ("name", "standard spec", "min and max specs", "disk templates", "vcpu ratio", "spindle ratio"),
)
_SPEC = ("memory size", "CPU count", "disk size", "disk count", "NIC count", "spindle use")


def policy(row: SectionLine) -> IPolicy:
    """The policy of a line. Raises DataError."""
    return IPolicy(
        minmax=row.read("min and max specs", _minmax),
        std=row.read("standard spec", _ispec),
        disk_templates=row.read("disk templates", _templates),
        vcpu_ratio=row.number("vcpu ratio"),
        spindle_ratio=row.number("spindle ratio"),
    )


def _templates(text: str) -> tuple[DiskTemplate, ...]:
    return tuple(values.member(part, DiskTemplate) for part in values.several(text, ","))


def _ispec(text: str) -> ISpec:
    parts = values.several(text, ",")
    if len(parts) < len(_SPEC):
        raise DataError(f"expected {', '.join(_SPEC)}, not {values.quote(text)}")
    return ISpec(*(values.read(values.whole, *pair) for pair in zip(parts, _SPEC, strict=False)))


def _minmax(text: str) -> tuple[MinMax, ...]:
    specs = [_ispec(part) for part in values.several(text, ";")]
    if len(specs) % 2:
        raise DataError(f"expected pairs of min and max specs, found {len(specs)} specs")
    return tuple(map(MinMax, specs[::2], specs[1::2]))


def line(owner: str, policy: IPolicy) -> str:
    """The line of a policy: the cluster's own has no owner."""
    pairs = (_spec_text(spec) for pair in policy.minmax for spec in (pair.min, pair.max))
    templates = ",".join(template.value for template in policy.disk_templates)
    ratios = f"{haskell.show(policy.vcpu_ratio)}|{haskell.show(policy.spindle_ratio)}"
    return f"{owner}|{_spec_text(policy.std)}|{';'.join(pairs)}|{templates}|{ratios}"


def _spec_text(spec: ISpec) -> str:
    return ",".join(map(str, astuple(spec)))
