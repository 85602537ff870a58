"""How long a search lasts, and how many plans are made of what it finds: for its caller to decide."""

from typing import Protocol


class SearchPatience(Protocol):
    """Decides whether to go on. Equal answers lead to equal plans."""

    def searches(self, score: float) -> bool:
        """Whether the search, with this present score, makes one more step."""

    def plans(self) -> bool:
        """Whether one more plan is made, or tried in another order; the question comes right before it."""
