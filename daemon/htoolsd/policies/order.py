"""All policies, and the order in which they are thought of."""

from collections.abc import Mapping, Sequence

from htoolsd.policies.finish import FINISH
from htoolsd.policies.policy import Remedy
from htoolsd.policies.power_down import POWER_DOWN
from htoolsd.policies.power_up import POWER_UP
from htoolsd.policies.rebalance import REBALANCE
from htoolsd.policies.redistribute import REDISTRIBUTE

ORDER: Sequence[Remedy] = (REDISTRIBUTE, POWER_UP, REBALANCE, POWER_DOWN, FINISH)

# What each policy does, by the name of its table.
POLICIES: Mapping[str, Sequence[Remedy]] = {
    name: [each for each in ORDER if each.policy == name]
    for name in dict.fromkeys(each.policy for each in ORDER)
}
