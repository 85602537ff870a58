"""All remedies in their order.

In each round remedies are considered one after the other. Where one acts, later ones leave the node group
alone until the next round. Repairs come first, then room for instances, then hot nodes, then balance, then
saving power.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from htoolsd.policies.rebalance import Rebalance
from htoolsd.policies.redistribute import Redistribute
from htoolsd.policies.relieve import Relieve
from htoolsd.policies.remedy import Remedy
from htoolsd.policies.repair import RepairInstances
from htoolsd.policies.squeeze import Finish, PowerDown, PowerUp

ORDER: Sequence[type[Remedy[Any]]] = (
    RepairInstances,
    Redistribute,
    PowerUp,
    Relieve,
    Rebalance,
    PowerDown,
    Finish,
)

# The remedies of each policy, by the name of its table.
POLICIES: Mapping[str, Sequence[type[Remedy[Any]]]] = {
    name: [each for each in ORDER if each.policy == name]
    for name in dict.fromkeys(each.policy for each in ORDER)
}
