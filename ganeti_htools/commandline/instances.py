"""Instances to place, from a command line (``hspace(1)``)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ganeti_htools.backends.units import misplacement
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.model.cluster import Disk, template_not_enabled
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.resource_classes import no_node_has
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import TYPE_OF, DesiredUnit, StorageType, holds
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import known_pools


class RequestedSizes(NamedTuple):
    """A kind of instances, and the sizes to start from."""

    kind: InstanceKind
    sizes: list[InstanceSize]


def requested_instances(state: State, line: CommandLine) -> tuple[RequestedSizes, RequestedSizes]:
    """Return the instances of tiered and of standard allocation. Raises HtoolsError."""
    policy = state.cluster.ipolicy
    units = [unit for unit in (line.storage_unit, *(unit for _, unit in line.disk)) if unit]
    template = line.disk_template or _template(state, units)
    if refusal := template_not_enabled(state.cluster, template):
        raise HtoolsError(refusal)
    use = policy.std.spindle_use if line.spindle_use is None else line.spindle_use
    sizes = [_given(line.tiered_alloc)] if line.tiered_alloc else [_size(pair.max) for pair in policy.minmax]
    if not sizes:
        raise HtoolsError("Empty list of specs received from the cluster")
    size = _given(line.standard_alloc) if line.standard_alloc else _size(policy.std)
    kind = InstanceKind(template, use, line.storage_unit, demands=line.resource)
    disks = tuple(
        Disk(mib, 0 if number else size.spindles, unit or line.storage_unit)
        for number, (mib, unit) in enumerate(line.disk)
    )
    for unit in units:
        _check_unit(state, template, unit)
    default = state.units.unit_of(Disk(0), template)
    if default not in state.units.local and state.lacks_unit(template):
        raise HtoolsError(f"no node has {default}, where disks of disk template {template.value} are")
    for name, _ in line.resource:
        if name not in state.units.classes:
            raise HtoolsError(no_node_has(name, state.units.classes))
    if disks:
        size = replace(size, dsk=sum(disk.size for disk in disks))
    return RequestedSizes(kind, sizes), RequestedSizes(replace(kind, disks=disks), [size])


def _template(state: State, units: Sequence[DesiredUnit]) -> DiskTemplate:
    """Find the first disk template that the cluster and its policy enable, for the requested units.

    Where nodes report storage units, templates whose unit no node has come last. If nothing says what the
    cluster enables, templates whose storage is known come first, and the one without disks after all others.
    Raises HtoolsError if there is none.
    """
    allowed, enabled = state.cluster.ipolicy.disk_templates, state.cluster.enabled_templates
    found = [each for each in (allowed if enabled is None else enabled) if each in allowed]
    if not found:
        raise HtoolsError("null list of disk templates received from cluster")
    if state.units.reported:
        pools = known_pools(state.cluster, state.units)
        known = {StorageType.LVM_VG, StorageType.FILE, *(pool.type for pool in pools)}

        def rank(each: DiskTemplate) -> tuple[bool, bool, bool]:
            without = enabled is None and each is DiskTemplate.DISKLESS
            return state.lacks_unit(each), without, enabled is None and TYPE_OF[each] not in known

        found.sort(key=rank)
    fitting = [each for each in found if all(holds(unit, each) for unit in units)]
    if not fitting:
        raise HtoolsError(f"no enabled disk template is on {' and '.join(map(str, dict.fromkeys(units)))}")
    return fitting[0]


def _check_unit(state: State, template: DiskTemplate, unit: DesiredUnit) -> None:
    """Raises HtoolsError for a unit that no node has, or for one that cannot hold disks of the template."""
    if wrong := misplacement(unit, template):
        raise HtoolsError(wrong)
    if unit.type.pool:
        return
    if not state.units.reported:
        raise HtoolsError(f"no node tells its storage units, so none is known to have {unit}")
    if state.units.unit_of(Disk(0, unit=unit), template) not in state.units.local:
        raise HtoolsError(f"no node has {unit}")


def _size(spec: ISpec) -> InstanceSize:
    return InstanceSize(spec.memory_size, spec.disk_size, spec.cpu_count, spec.spindle_use)


def _given(spec: Sequence[int]) -> InstanceSize:
    dsk, mem, vcpus, spindles = spec
    return InstanceSize(mem, dsk, vcpus, spindles)
