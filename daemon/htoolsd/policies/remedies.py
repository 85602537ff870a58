"""All remedies in their order.

In each round remedies are considered one after the other. Where one acts, later ones leave the node group
alone until the next round. Repairs come first, then room for instances, then balance, then saving power.
"""

from collections.abc import Mapping, Sequence

from htoolsd.policies.rebalance import REBALANCE
from htoolsd.policies.redistribute import REDISTRIBUTE
from htoolsd.policies.remedy import Remedy
from htoolsd.policies.repair import REPAIR
from htoolsd.policies.squeeze import FINISH, POWER_DOWN, POWER_UP

ORDER: Sequence[Remedy] = (REPAIR, REDISTRIBUTE, POWER_UP, REBALANCE, POWER_DOWN, FINISH)

# The remedies of each policy, by the name of its table.
POLICIES: Mapping[str, Sequence[Remedy]] = {
    name: [each for each in ORDER if each.policy == name]
    for name in dict.fromkeys(each.policy for each in ORDER)
}
