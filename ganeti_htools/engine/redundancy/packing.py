"""Whether instances find no room together, however they are placed."""

from collections.abc import Sequence

from ganeti_htools.engine.redundancy.loss_simulation import Displaced

# Places that are tried before nothing is told.
TRIES = 300


def unplaceable(instances: Sequence[Displaced], mem: Sequence[int], disk: Sequence[int]) -> bool:
    """Whether there is certainly no room for all on nodes with so much free (MiB), whichever goes where.

    Spindles are not looked at. Few instances on few nodes can be told of: all ways are tried.
    """
    mem, disk, tries = list(mem), list(disk), TRIES
    alike = all(each.targets == instances[0].targets for each in instances)

    def placed(at: int) -> bool:
        """Whether those from a position on find room, or it takes too long to find out."""
        nonlocal tries
        if at == len(instances):
            return True
        each, seen = instances[at], set()
        for node in each.targets:
            left = mem[node], disk[node]
            if left in seen or left[0] <= each.mem or (each.disk is not None and left[1] <= each.disk):
                continue
            if alike:  # then nodes with as much left are
                seen.add(left)
            tries -= 1
            mem[node] -= each.mem
            disk[node] -= each.disk or 0
            found = tries < 0 or placed(at + 1)
            mem[node], disk[node] = left
            if found:
                return True
        return False

    return not placed(0)
