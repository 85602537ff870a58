"""The length of a search, and the number of plans made of what it finds: the caller decides."""

from typing import Protocol


class SearchPatience(Protocol):
    """Decides whether to go on. Equal answers lead to equal plans."""

    def searches(self, score: float) -> bool:
        """Whether the search, with this present score, makes one more step."""

    def plans(self) -> bool:
        """Whether one more plan is made, or tried in another order; the question comes right before it."""
