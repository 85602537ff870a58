"""All policies, and the order in which they are thought of."""

from collections.abc import Mapping, Sequence

from htoolsd.policies.policy import Remedy
from htoolsd.policies.rebalance import REBALANCE
from htoolsd.policies.redistribute import REDISTRIBUTE
from htoolsd.policies.squeeze import POWER_DOWN, POWER_UP

ORDER: Sequence[Remedy] = (REDISTRIBUTE, POWER_UP, REBALANCE, POWER_DOWN)

# What each policy does, by the name of its table.
POLICIES: Mapping[str, Sequence[Remedy]] = {
    name: [each for each in ORDER if each.policy == name]
    for name in dict.fromkeys(each.policy for each in ORDER)
}
