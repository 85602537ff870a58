"""The kinds of steps that moves are made of."""

from enum import Enum


class Kind(Enum):
    """What a step of a move does."""

    FAILOVER = "failover"  # to the secondary
    FAILOVER_TO = "failover to"  # any node, on storage all nodes see
    REPLACE_SECONDARY = "replace secondary"
    REPLACE_AND_FAILOVER = "replace secondary and fail over"  # the new node becomes primary
    REPLACE_PRIMARY = "replace primary"  # by way of the secondary, which stays one
    FAILOVER_AND_REPLACE = "fail over and replace secondary"  # the primary is left
