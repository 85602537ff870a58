"""The states of nodes, in the words of status, screens, pages and JSON."""

from enum import Enum


class NodeState(Enum):
    """The reason why a node takes no instances: its word, and how a sentence says that the node is in it."""

    MAINTENANCE = "maintenance", "in maintenance"  # an administrator works on it (htools:maintenance)
    DRAINED = "drained", "drained"
    SILENT = "silent", "silent"  # in use, but without a report
    STANDBY = "standby", "on standby"  # offline; hsqueeze may power it up
    OFFLINE = "offline", "offline"
    IN_USE = "", "in use"

    def __init__(self, word: str, phrase: str) -> None:
        self.word = word
        self.phrase = phrase

    @property
    def alarming(self) -> bool:
        """Whether nobody has asked for this state."""
        return self is NodeState.SILENT
