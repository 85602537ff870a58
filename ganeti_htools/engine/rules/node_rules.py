"""Effects of an instance on a node, and the reasons why it must not come.

Only these functions change the figures of a node, as :mod:`.resources` declares. Columns may have any shapes
that broadcast, so one call tries an instance on every candidate. Soft limits hold unless ``force`` is set.
Hard limits (memory, disk, spindles that do not exist) always hold.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.engine.rules.class_limits import all_allowed
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY, SOURCE, Limit, NodeRole
from ganeti_htools.engine.rules.resources import (
    RESERVE,
    InstanceOnNode,
    Resource,
    declared_limits,
    resources,
    views,
)
from ganeti_htools.engine.rules.storage_limits import disk_limits, unit_limits
from ganeti_htools.model.columns import Columns, Ints, Shape, columns_type
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail

Codes = NDArray[np.int8]

FITS = 0
CODE = {fail: code for code, fail in enumerate(Fail, start=1)}
FAIL = dict(enumerate(Fail, start=1))
_CODE = {fail: np.int8(code) for fail, code in CODE.items()}


@lru_cache(maxsize=256)
def _changing(
    shape: Shape, role: NodeRole, forthcoming: bool
) -> tuple[tuple[Resource, tuple[int, ...]], ...]:
    """Find the resources that an instance changes, each with the positions of its columns."""
    names = columns_type(shape)._fields
    found = [(each, each.views(shape, forthcoming)) for each in resources(shape) if role in each.roles]
    return tuple((each, tuple(map(names.index, figures))) for each, figures in found if figures)


@lru_cache(maxsize=256)
def limits(
    shape: Shape, role: NodeRole, forthcoming: bool, wants: tuple[bool, ...], force: bool
) -> tuple[tuple[Limit, str], ...]:
    """Find the limits that hold for an instance, in the order of their checks, each with its figure."""
    counted, declared = views(shape), declared_limits(shape)
    if forthcoming and force:  # free space does not count, but a missing unit prevents it forever
        declared += unit_limits(shape)
    held = [
        each
        for each in declared
        if role in each.roles and (each.of is None or wants[each.of]) and not (force and each.soft)
    ]
    plain = [(each, each.figure) for each in held if not forthcoming or each.fixed]
    if force:
        return tuple(plain)
    counting = [(each, counted[each.figure]) for each in held if each.figure in counted and not each.settled]
    return (*plain, *counting)


def _changed(
    columns: Columns, change: InstanceOnNode, sign: int, role: NodeRole
) -> tuple[Columns, Ints | None]:
    """Compute the columns after an instance has come (1) or gone (-1).

    Also ``unallocated``, unless the instance is forthcoming. Aliases that change by the same amount stay
    aliases.
    """
    forthcoming, new, firsts = change.asked.forthcoming, list(columns), columns.firsts
    done: dict[int, tuple[Any, Any]] = {}
    apart = []
    for resource, figures in _changing(columns.shape, role, forthcoming):
        amount, after = resource.amount(columns, change), resource.after
        for view in figures:
            first = firsts[view]
            if first in done and done[first][0] is after and _same(done[first][1], amount):
                new[view] = new[first]
                continue
            if first != view:
                apart.append(columns._fields[view])
            new[view] = after(columns, columns[view], amount, sign)
            done[view] = after, amount
    made = columns.with_columns(new, apart)
    if forthcoming:
        return made, None
    unallocated = made.unallocated
    return made._replace(fail_n1=fails_n1(unallocated, made.r_mem)), unallocated


def fails_n1(unallocated: Any, r_mem: Any) -> Any:
    """Whether nodes fail N+1: their memory is too small for what they keep free for their peers (MiB)."""
    return RESERVE.relation.broken(unallocated, r_mem)


def _same(one: Any, other: Any) -> bool:
    return one is other or not np.count_nonzero(np.not_equal(one, other))


def first_reason(codes: Codes, *later: Codes) -> Codes:
    """Combine the codes of several parts of a placement: the first reason against it, FITS where there is
    none.

    Arrays broadcast against each other.
    """
    for more in later:
        codes = np.where(codes == FITS, more, codes)
    return codes


def _codes(
    old: Columns,
    new: Columns,
    unallocated: Any,
    asked: RequestedInstance,
    role: NodeRole,
    force: bool,
    ignored: tuple[Limit, ...] = (),
) -> Codes:
    """Find the code of the first broken limit, element by element; FITS where no limit is broken."""

    def figure(name: str) -> Any:
        return unallocated if name == "unallocated" else getattr(new, name)

    codes: Any = np.zeros(old.offline.shape, np.int8)
    for limit, name in reversed(limits(old.shape, role, asked.forthcoming, asked.wants, force)):
        if limit in ignored if name == limit.figure else new.aliases.get(name) == limit.figure:
            continue  # the view with forthcoming instances equals the plain one
        broken = limit.broken(figure(name), old, new, asked)
        if np.count_nonzero(broken) or broken.shape != codes.shape:
            codes = np.where(broken, _CODE[limit.fail], codes)
    return np.asarray(codes)


def remove_primary(columns: Columns, asked: RequestedInstance, conflicts: Any, location: Any) -> Columns:
    """Compute the columns without a primary. ``conflicts``, ``location``: see :class:`.InstanceOnNode`."""
    return _changed(columns, InstanceOnNode(asked, conflicts, location), -1, PRIMARY)[0]


def add_primary(
    columns: Columns, asked: RequestedInstance, conflicts: Any, location: Any, force: bool = False
) -> tuple[Columns, Codes]:
    """Compute the columns with a new primary, and for each candidate the reason against it (FITS if it may
    come).

    ``conflicts``, ``location``: see :class:`.InstanceOnNode`.
    """
    new, free = _changed(columns, InstanceOnNode(asked, conflicts, location), 1, PRIMARY)
    return new, _codes(columns, new, free, asked, PRIMARY, force)


def remove_secondary(
    columns: Columns, asked: RequestedInstance, r_mem: Any, kept: Sequence[Any] = ()
) -> Columns:
    """Compute the columns without a secondary.

    ``r_mem`` (MiB) is the largest reservation that remains on the node, ``kept`` the same of each custom
    class.
    """
    return _changed(
        columns, InstanceOnNode(asked, reserved=r_mem, kept=_concerned(asked, kept)), -1, SECONDARY
    )[0]


def add_secondary(
    columns: Columns,
    asked: RequestedInstance,
    peer_mem: Any,
    force: bool = False,
    ignore_disk: bool = False,
    peers: Sequence[Any] = (),
) -> tuple[Columns, Codes]:
    """Compute the columns with a new secondary, and for each candidate the reason against it. Only DRBD has
    one.

    * ``peer_mem`` (MiB) is what the candidate already keeps free for the same primary, ``peers`` the same of
      each custom class; by default nothing.
    * With ``ignore_disk`` the disk is on the node already, because the primary was lost. Full disks and the
      amounts that the node gives of custom classes are then no obstacle.
    """
    together = [
        kept + own
        for kept, own in zip(
            peers or (0,) * len(asked.secondary_classes), asked.secondary_classes, strict=True
        )
    ]
    reserved = peer_mem + asked.secondary_mem
    change = InstanceOnNode(asked, reserved=reserved, kept=_concerned(asked, together))
    new, free = _changed(columns, change, 1, SECONDARY)
    ignored: tuple[Limit, ...] = ()
    if ignore_disk:
        ignored = (*disk_limits(columns.shape), *unit_limits(columns.shape), *all_allowed(columns.shape))
    codes = _codes(columns, new, free, asked, SECONDARY, force, ignored)
    return new, codes if asked.mirrored else np.full_like(codes, CODE[Fail.DISK])


def _concerned(asked: RequestedInstance, kept: Sequence[Any]) -> Sequence[Any]:
    """Replace by None what is kept of custom classes that the instance does not use."""
    wanted = asked.wants[len(asked.wants) - len(kept) :]
    return [amount if wants else None for amount, wants in zip(kept, wanted, strict=True)] if kept else ()


def copy_codes(columns: Columns, asked: RequestedInstance) -> Codes:
    """Find, for each node, the reason why disks must not be copied from it; ``force`` does not help."""
    return _codes(columns, columns, None, asked, SOURCE, force=False)
