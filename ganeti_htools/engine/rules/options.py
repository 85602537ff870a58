"""What a caller may ask of a decision."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a decision keeps to (``hail(1)``, ``htools(1)``).

    ``capacity``: only accept states that are globally N+1 redundant; ``accept_existing``: do not ask that of
    nodes that are offline already. ``ignore_soft_errors``: drop the soft limits. ``restrict_to``: names of
    the only nodes to place new instances on, overriding a request's own. ``inter_group``: what leaves a node
    and finds no place in its group may go to another one. ``static_kvm_node_memory``: MiB that
    a node running KVM is taken to need for itself, 0 to believe what it reports.
    """

    capacity: bool = True
    accept_existing: bool = False
    ignore_soft_errors: bool = False
    restrict_to: tuple[str, ...] | None = None
    static_kvm_node_memory: int = 4096
    inter_group: bool = False
